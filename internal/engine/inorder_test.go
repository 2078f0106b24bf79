package engine

import (
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A walk whose caller stops at an error, which comes before the first key, calls him no more.
func TestWalksStopAtAnError(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.OnError = func(error) {} })
	if _, err := s.Map("n"); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		put(t, s, i)
	}
	mustClose(t, s)
	logtest.RemoveIndex(mem, "db")
	s = mustOpen(t, mem, func(o *Options) { o.OnError = func(error) {} })
	defer s.Close()
	cells := attached(t, s, "n")
	table := cells.owner
	damageOne(t, s, mem)
	for name, f := range map[string]func() bool{
		"Scan": func() bool {
			for _, err := range s.Scan(Span{}) {
				if err != nil {
					return true
				}
			}
			return false
		},
		"View.Scan": func() bool {
			v := mustView(t, s)
			defer v.Close()
			for item := range v.Scan(Span{}, false) {
				if item.Err != nil {
					return true
				}
			}
			return false
		},
		"InOrder": func() bool {
			for item := range s.InOrder(cells, keycodec.BytesOrder, Span{}, false) {
				if item.Err != nil {
					return true
				}
			}
			return false
		},
		"View.InOrder": func() bool {
			v := mustView(t, s)
			defer v.Close()
			for item := range v.InOrder(table, keycodec.BytesOrder, Span{}, false) {
				if item.Err != nil {
					return true
				}
			}
			return false
		},
	} {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s: panic: %v", name, p)
				}
			}()
			if !f() {
				t.Errorf("%s: no error item", name)
			}
		}()
	}
}

// damageOne makes a record of the table unreadable.
func damageOne(t *testing.T, s *Store, mem *vfs.Mem) {
	t.Helper()
	var at seglog.Address
	table := s.spaces[0].route('v', number(7))
	for a, err := range table.addresses() {
		if err != nil {
			t.Fatal(err)
		}
		at = a
		break
	}
	slot, offset := seglog.SplitAddress(at)
	seg := s.log.Segment(slot)
	f, err := mem.Open(seg.Path, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	for i := int64(0); i < 6; i++ {
		f.ReadAt(b[:], offset+i)
		b[0] ^= 0x15
		if _, err := f.WriteAt(b[:], offset+i); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
}

// A walk over the raw keys of a closed store, which are kept in order, says that it is closed, once.
func TestScanOfClosed(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	if err := errors.Join(s.Order(s.RawTable(), keycodec.BytesOrder), s.Set(nil, []byte("k"), nil, 0, Process)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	n := 0
	for key, err := range s.Scan(Span{}) {
		if n++; n > 1 || key != nil || err != seglog.ErrClosed {
			t.Errorf("item %d: %q, %v", n, key, err)
		}
	}
	if n == 0 {
		t.Error("nothing is said")
	}
}
