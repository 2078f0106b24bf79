package table

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// The parts of the work: keys, the order in which they are visited, values that contain their key
// and round. All are made before a clock runs, from fixed seeds, and is the same for every side.

// scale is how much a run does.
type scale struct {
	rounds    int
	keys      int // of most lines
	manyKeys  int // for the cost of a large store
	ops       int // a round, of operations well under a microsecond
	mixOps    int
	slowOps   int // a round, of operations of microseconds
	perWorker int // durable writes a round and goroutine
	latency   time.Duration
	rawBytes  int // of values in a raw store, at most
}

var (
	fullScale = scale{rounds: 9, keys: 100_000, manyKeys: 1_000_000, ops: 300_000, mixOps: 1_000_000, slowOps: 20_000,
		perWorker: 20, latency: 2 * time.Second, rawBytes: 640 << 20}
	quickScale = scale{rounds: 3, keys: 100_000, manyKeys: 250_000, ops: 60_000, mixOps: 200_000, slowOps: 2_000,
		perWorker: 4, latency: 300 * time.Millisecond, rawBytes: 12 << 20}
	// tinyScale is for tests, which check that lines run and not their figures.
	tinyScale = scale{rounds: 1, keys: 200, manyKeys: 300, ops: 400, mixOps: 600, slowOps: 50,
		perWorker: 1, latency: 10 * time.Millisecond, rawBytes: 1 << 20}
)

// many is the number of goroutines where there are many.
const many = 150

func makeKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user-%08d", i)
	}
	return keys
}

func asBytes(keys []string) [][]byte {
	b := make([][]byte, len(keys))
	for i, k := range keys {
		b[i] = []byte(k)
	}
	return b
}

// shuffled returns ops places of n keys: all of them in random order, again and again.
func shuffled(n, ops int) []int32 {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	order := make([]int32, 0, ops)
	for len(order) < ops {
		for _, i := range random.Perm(n)[:min(n, ops-len(order))] {
			order = append(order, int32(i))
		}
	}
	return order
}

// Person is the struct of three fields.
type Person struct {
	Name  string
	Age   int
	Score float64
}

// names are those of all persons, so that making one allocates nothing.
var names = func() (list [64]string) {
	for i := range list {
		list[i] = "person " + strconv.Itoa(1000+i)
	}
	return list
}()

// personOf returns the value of a key in a round.
func personOf(key int32, round int) Person {
	return Person{Name: names[(int(key)+round)%len(names)], Age: int(key), Score: float64(round)}
}

// spots are places of an order that are looked at after each round.
func spots(order []int32) []int32 {
	var some []int32
	for i := 0; i < len(order); i += max(len(order)/100, 1) {
		some = append(some, order[i])
	}
	return some
}

// wrong returns the error of a value other than the written one.
func wrong(key int32, got, want any) error {
	return fmt.Errorf("key %d holds %v, written was %v", key, got, want)
}

// blob is a value of a raw store: the key and the round, and then bytes that do not compress.
type blob []byte

func newBlob(size int) blob {
	b := make(blob, size)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(b)
	return b
}

// mark makes b the value of a key in a round.
func (b blob) mark(key int32, round int) {
	binary.LittleEndian.PutUint32(b, uint32(key))
	binary.LittleEndian.PutUint32(b[4:], uint32(round))
}

// keyOf returns the key for which a value was marked; -1 for other values.
func keyOf(value []byte, size int) int32 {
	if len(value) != size {
		return -1
	}
	return int32(binary.LittleEndian.Uint32(value))
}

// count spells a number for titles: 100k, 1M.
func count(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + "M"
	case n >= 1_000 && n%1_000 == 0:
		return strconv.Itoa(n/1_000) + "k"
	}
	return strconv.Itoa(n)
}

// size spells a number of bytes for titles.
func size(n int) string {
	if n >= 1<<10 && n%(1<<10) == 0 {
		return strconv.Itoa(n>>10) + " KiB"
	}
	return strconv.Itoa(n) + " B"
}

func goroutines(n int) string {
	if n == 1 {
		return "1 goroutine"
	}
	return strconv.Itoa(n) + " goroutines"
}
