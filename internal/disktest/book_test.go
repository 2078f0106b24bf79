//go:build linux

package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// book is a store with one map, and its expected content.
type book struct {
	t    judge
	dir  string
	db   *copal.DB
	m    *copal.Map[int, []byte]
	want map[int]int // by key: the length of its value
	next int         // a key that was never used

	mu       sync.Mutex
	reported []error // guarded by mu
}

// judge has the methods of a test that a book needs; a child has no test.
type judge interface {
	Helper()
	Cleanup(func())
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

// bookMemory is little, so that reads come from the log.
const bookMemory = 4 << 20

func newBook(t judge, dir string) *book {
	b := &book{t: t, dir: dir, want: map[int]int{}}
	b.open()
	return b
}

func (b *book) open() {
	b.t.Helper()
	db, err := copal.Open(b.dir, copal.WithMaxMemory(bookMemory), copal.WithErrorHandler(b.report))
	if err != nil {
		b.t.Fatal("Open: ", err)
	}
	b.t.Cleanup(func() { db.Close() })
	m, err := copal.OpenMap[int, []byte](db, "book", copal.WithCodec(codec.Bytes))
	if err != nil {
		b.t.Fatal(err)
	}
	b.db, b.m = db, m
}

func (b *book) close() {
	b.t.Helper()
	if err := b.db.Close(); err != nil {
		b.t.Fatal("Close: ", err)
	}
}

func (b *book) report(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reported = append(b.reported, err)
}

// silent fails the test if anything but a lack of room was reported.
func (b *book) silent() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, err := range b.reported {
		if !full(err) {
			b.t.Error("reported: ", err)
		}
	}
}

// full reports whether the error says that the disk is full, and nothing worse.
func full(err error) bool {
	return errors.Is(err, copal.ErrNoSpace) && !errors.Is(err, copal.ErrReadOnly)
}

// valueOf returns the value of a key, of so many bytes.
func valueOf(key, size int) []byte {
	v := fmt.Appendf(make([]byte, 0, size+32), "%d of %d bytes: ", key, size)
	for at := int(uint(key) * 61 % uint(len(noise))); len(v) < size; at = 0 {
		v = append(v, noise[at:min(len(noise), at+size-len(v))]...)
	}
	return v[:size]
}

// noise is the filling of values: it is random, of an odd length, and has newlines.
var noise = func() []byte {
	b := make([]byte, 16<<10+7)
	rng := rand.NewPCG(1, 2)
	for i := range b {
		if b[i] = byte(rng.Uint64()); i%4 == 0 {
			b[i] = '\n'
		}
	}
	return b
}()

// set writes a new entry, and reports whether there was room.
func (b *book) set(size int) bool {
	b.t.Helper()
	key := b.next
	b.next++
	err := b.m.Set(key, valueOf(key, size))
	if err == nil {
		b.want[key] = size
	} else if !full(err) {
		b.t.Fatalf("Set of %d bytes: %v", size, err)
	}
	return err == nil
}

// fill writes until not even the smallest value is taken: first of all sizes, large ones too.
func (b *book) fill() {
	b.t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(b.next)))
	for size := func() int {
		switch n := rng.IntN(100); {
		case n < 2:
			return 1<<20 + rng.IntN(1<<20)
		case n < 10:
			return 10<<10 + rng.IntN(200<<10)
		}
		return rng.IntN(4 << 10)
	}; b.set(size()); {
	}
	for _, size := range []int{100 << 10, 4 << 10, 500, 0} {
		for b.set(size) {
		}
	}
}

// compare reads everything in every way.
func (b *book) compare() {
	b.t.Helper()
	for key, size := range b.want {
		want := valueOf(key, size)
		if v, err := b.m.Load(key); err != nil || !bytes.Equal(v, want) {
			b.t.Fatalf("Load(%d): %d bytes, %v; want %d", key, len(v), err, size)
		}
		if v, ok := b.m.Get(key); !ok || !bytes.Equal(v, want) {
			b.t.Fatalf("Get(%d): %d bytes, %t; want %d", key, len(v), ok, size)
		}
	}
	n := 0
	for key, v := range b.m.All() {
		n++
		if size, ok := b.want[key]; !ok || !bytes.Equal(v, valueOf(key, size)) {
			b.t.Fatalf("All yields %d with %d bytes; wanted: %t", key, len(v), ok)
		}
	}
	if n != len(b.want) || b.m.Len() != n {
		b.t.Fatalf("All yields %d entries, Len is %d; want %d", n, b.m.Len(), len(b.want))
	}
	b.silent()
}

// remove deletes n entries.
func (b *book) remove(n int) {
	b.t.Helper()
	for key := range b.want {
		if n--; n < 0 {
			return
		}
		if existed, err := b.m.Delete(key); !existed || err != nil {
			b.t.Fatalf("Delete with %d to go: %t, %v", n, existed, err)
		}
		delete(b.want, key)
	}
	b.t.Fatalf("the book has %d entries too few", n)
}
