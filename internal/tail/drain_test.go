package tail

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// The files of a tail are drained in their order, and none after one that fails. DrainTail drains
// only if that is due or pays.
func TestTailIsDrainedInOrder(t *testing.T) {
	const size = 64 << 10 // of a part of the ring
	var told []error
	fsys := vfs.NewMem()
	l := newTails(t, fsys, &told)
	l.Owner.Rings = &RingFormat{Title: "testring", Log: "log", ID: "ring", Parts: []string{"a", "b"}, Unit: PartUnit, Most: 1 << 30}
	if err := l.BeginRing(1, func() uint64 { return 2 }, [2]int64{size, size}, false); err != nil || l.Ring == nil {
		t.Fatal(err, told)
	}
	var now, list Growing
	var sizes [len(list)]func() int64
	for i, path := range []string{"db/1", "db/2"} {
		f, err := fsys.Open(path, vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		list[i] = &Tail{Path: path, File: f}
		list[i].BeginIn(&l.Ring.Parts[i])
		sizes[i] = func() int64 {
			n, err := f.Size()
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	l.Owner.Mu, l.Owner.Tail = &sync.Mutex{}, func() Growing { return now }
	store := func(i, n int) {
		t.Helper()
		end := list[i].End.Load()
		if err := l.Ring.Parts[i].Store(list[i], []byte(strings.Repeat("x", n)), end); err != nil {
			t.Fatal(err)
		}
		list[i].End.Store(end + int64(n))
	}
	drains := func(due bool, first, second int64) {
		t.Helper()
		if err := l.DrainTail(due); err != nil || sizes[0]() != first || sizes[1]() != second {
			t.Errorf("the files have %d and %d bytes, want %d and %d: %v", sizes[0](), sizes[1](), first, second, err)
		}
	}
	store(0, 20)
	store(1, 2)
	drains(true, 0, 0) // there is no tail
	now = list
	drains(false, 0, 0)
	drains(true, 20, 2)
	store(1, size/2) // that is enough
	drains(false, 20, 2+size/2)

	store(0, 1)
	store(1, 1)
	if err := list[0].File.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if err := l.DrainTail(true); !errors.Is(err, errCut) || sizes[1]() != 2+size/2 {
		t.Errorf("after a cut of the first file the second has %d bytes: %v", sizes[1](), err)
	}
}
