package serial

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal"
)

// Short histories of a few goroutines on a few lists, typed and raw, and one that is a collection:
// transactions that read, append and iterate, some that only read, and single reads and updates of
// every other kind beside them. Each is checked for a serial order.
//
// COPAL_LONG=1 checks many more.
//
// That the test would notice was tried by breaking the code. Each of these was caught, within a
// default run:
//
//   - Nothing is validated; or not the reads; or not the iterations.
//   - A later asynchronous write is no change.
//   - Readers without a lock do not wait for writes that have begun to show.
//   - A transaction commits after reads from a view that was opened before its last conflict.
//   - A commit does not check the elements of a collection that were read.
func TestSerializable(t *testing.T) {
	rounds := 300
	switch {
	case os.Getenv("COPAL_LONG") == "1":
		rounds = 10_000
	case testing.Short():
		rounds = 100
	}
	txns := 0
	for seed := range uint64(rounds) {
		h := newHistory(t, seed)
		h.run()
		if err := Check(h.txns); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		txns += len(h.txns)
	}
	t.Logf("%d histories, %d transactions", rounds, txns)
}

type history struct {
	t     *testing.T
	seed  uint64
	db    *copal.DB
	lists *copal.Map[string, []int]
	queue *copal.ListOf[int]
	clock atomic.Int64
	last  atomic.Int64 // number that was appended

	mu   sync.Mutex
	txns []Txn
}

var typedKeys, rawKeys = []string{"a", "b", "c"}, []string{"raw", "lists:d"} // lists:d is one of the map, too

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{t: t, seed: seed}
	var err error
	if h.db, err = copal.OpenMemory(copal.WithErrorHandler(func(err error) { t.Error(err) })); err != nil {
		t.Fatal(err)
	}
	if h.queue, err = copal.OpenList[int](h.db, "queue"); err != nil {
		t.Fatal(err)
	}
	if seed%2 == 0 { // else the map is declared while it is read by its keys
		h.open()
	}
	return h
}

func (h *history) open() {
	var err error
	var opts []copal.MapOption
	if h.seed%3 == 0 {
		opts = append(opts, copal.Ordered())
	}
	if h.lists, err = copal.OpenMap[string, []int](h.db, "lists", opts...); err != nil {
		h.t.Error(err)
	}
}

func (h *history) run() {
	defer h.db.Close()
	if h.lists == nil {
		h.open()
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(h.seed, uint64(n)))
			for i := range 14 {
				h.one(rng, fmt.Sprintf("%d/%d", n, i))
			}
		})
	}
	wg.Wait()
	h.look(rand.New(rand.NewPCG(h.seed, 99)), "last") // so that most numbers were read
}

// one runs a transaction and notes it.
func (h *history) one(rng *rand.Rand, name string) {
	switch rng.IntN(8) {
	case 0:
		h.look(rng, name)
	case 1:
		h.single(rng, name)
	case 2:
		h.alone(rng, name)
	default:
		h.update(rng, name)
	}
}

func (h *history) note(name string, begin int64, ops []Op) {
	end := h.clock.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.txns = append(h.txns, Txn{name, begin, end, ops})
}

func (h *history) check(err error) {
	if err != nil && !errors.Is(err, copal.ErrNotFound) {
		h.t.Error(err)
	}
}

// update is a transaction of some steps.
func (h *history) update(rng *rand.Rand, name string) {
	var ops []Op
	begin := h.clock.Add(1)
	err := h.db.Update(func(tx *copal.Tx) error {
		ops = nil
		for range 1 + rng.IntN(4) {
			h.step(rng, tx, &ops, true)
			runtime.Gosched()
		}
		return nil
	})
	h.check(err)
	h.note(name, begin, ops)
}

// look is a transaction that only reads.
func (h *history) look(rng *rand.Rand, name string) {
	var ops []Op
	begin := h.clock.Add(1)
	err := h.db.View(func(tx *copal.Tx) error {
		for range 2 + rng.IntN(2) {
			h.step(rng, tx, &ops, false)
			runtime.Gosched()
		}
		return nil
	})
	h.check(err)
	h.note(name, begin, ops)
}

func (h *history) step(rng *rand.Rand, tx *copal.Tx, ops *[]Op, write bool) {
	m := h.lists.In(tx)
	switch n := rng.IntN(9); {
	case n > 6:
		h.elements(rng, tx, ops, write)
	case n == 0 && rng.IntN(2) == 0:
		h.iterate(m, ops)
	case n == 0:
		h.between(m, ops)
	case n == 1:
		h.scan(tx, rng.IntN(2) == 0, ops)
	case n < 4:
		key := rawKeys[rng.IntN(len(rawKeys))]
		text, err := tx.Raw().Load([]byte(key))
		h.check(err)
		list := h.parse(text)
		*ops = append(*ops, Op{Key: key, Read: list})
		if write && n == 3 {
			next := int(h.last.Add(1))
			text, err := json.Marshal(append(slices.Clone(list), next))
			h.check(errors.Join(err, tx.Raw().Set([]byte(key), text)))
			*ops = append(*ops, Op{Key: key, Append: next})
		}
	default:
		key := typedKeys[rng.IntN(len(typedKeys))]
		list, err := m.Load(key)
		h.check(err)
		*ops = append(*ops, Op{Key: "lists:" + key, Read: slices.Clone(list)})
		if write && n > 4 {
			next := int(h.last.Add(1))
			h.check(m.Set(key, append(slices.Clone(list), next)))
			*ops = append(*ops, Op{Key: "lists:" + key, Append: next})
		}
	}
}

// elements reads the list that is a collection, or appends to it without a look.
func (h *history) elements(rng *rand.Rand, tx *copal.Tx, ops *[]Op, write bool) {
	q := h.queue.In(tx)
	if write && rng.IntN(2) == 0 {
		next := int(h.last.Add(1))
		h.check(q.PushBack(next))
		*ops = append(*ops, Op{Key: "queue", Append: next})
		return
	}
	var list []int
	switch rng.IntN(3) {
	case 0:
		list = slices.Collect(q.All())
	case 1:
		list = slices.Collect(q.Between(0, q.Len()))
	case 2:
		for i := range q.Len() {
			n, err := q.Load(i)
			h.check(err)
			list = append(list, n)
		}
	}
	*ops = append(*ops, Op{Key: "queue", Read: list})
}

func (h *history) parse(text []byte) (list []int) {
	if len(text) > 0 {
		h.check(json.Unmarshal(text, &list))
	}
	return list
}

// iterate reads all lists of the map, those that are not there included.
func (h *history) iterate(m *copal.Map[string, []int], ops *[]Op) {
	lists := map[string][]int{}
	for k, v := range m.All() {
		if _, twice := lists[k]; twice {
			h.t.Errorf("%s twice", k)
		}
		lists[k] = slices.Clone(v)
	}
	if n := m.Len(); n != len(lists) {
		h.t.Errorf("Len is %d, there are %d", n, len(lists))
	}
	for _, key := range append(slices.Clone(typedKeys), "d") {
		*ops = append(*ops, Op{Key: "lists:" + key, Read: lists[key]})
	}
}

// between reads lists of the map up to the first that is there from b on, in order.
func (h *history) between(m *copal.Map[string, []int], ops *[]Op) {
	seen := false
	for k, v := range m.Between("b", "d") { // b and c
		if seen = true; k == "c" { // so b is not there
			*ops = append(*ops, Op{Key: "lists:b"})
		}
		*ops = append(*ops, Op{Key: "lists:" + k, Read: slices.Clone(v)})
		break
	}
	if !seen {
		*ops = append(*ops, Op{Key: "lists:b"}, Op{Key: "lists:c"})
	}
}

// scan is iterate by raw keys, or of the lists from b on, downwards.
func (h *history) scan(tx *copal.Tx, part bool, ops *[]Op) {
	lists := map[string][]int{}
	keys, items := append(slices.Clone(typedKeys), "d"), tx.Raw().Prefix([]byte("lists:"))
	if part {
		keys, items = []string{"b", "c", "d"}, tx.Raw().Backward().Between([]byte("lists:b"), []byte("lists:z"))
	}
	for k, v := range items {
		lists[string(k)] = h.parse(v)
	}
	for _, key := range keys {
		*ops = append(*ops, Op{Key: "lists:" + key, Read: lists["lists:"+key]})
	}
}

// single reads one list after the other, each a transaction of its own.
func (h *history) single(rng *rand.Rand, name string) {
	for i := range 3 {
		name := fmt.Sprint(name, ".", i)
		begin := h.clock.Add(1)
		if rng.IntN(4) == 0 {
			h.note(name, begin, []Op{{Key: "queue", Read: slices.Collect(h.queue.All())}})
			continue
		}
		if rng.IntN(3) == 0 {
			key := rawKeys[rng.IntN(len(rawKeys))]
			text, err := h.db.Raw().Load([]byte(key))
			h.check(err)
			h.note(name, begin, []Op{{Key: key, Read: h.parse(text)}})
			continue
		}
		key := typedKeys[rng.IntN(len(typedKeys))]
		list, _ := h.lists.Get(key)
		h.note(name, begin, []Op{{Key: "lists:" + key, Read: slices.Clone(list)}})
	}
}

// alone appends to one list by other means than a transaction.
func (h *history) alone(rng *rand.Rand, name string) {
	key, next := typedKeys[rng.IntN(len(typedKeys))], int(h.last.Add(1))
	if rng.IntN(4) == 0 {
		begin := h.clock.Add(1)
		h.check(h.queue.PushBack(next))
		h.note(name, begin, []Op{{Key: "queue", Append: next}})
		return
	}
	var list []int
	add := func(u *copal.Entry[[]int]) error {
		list = slices.Clone(u.Value)
		u.Value = append(slices.Clone(list), next)

		return nil
	}
	begin := h.clock.Add(1)
	var err error
	if rng.IntN(2) == 0 {
		_, _, err = h.lists.Update(key, add)
	} else {
		_, _, err = h.lists.UpdateAsync(key, add)
	}
	h.check(err)
	h.note(name, begin, []Op{{Key: "lists:" + key, Read: list}, {Key: "lists:" + key, Append: next}})
}
