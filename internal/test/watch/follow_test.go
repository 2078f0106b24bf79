package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// A reader opens a store, and a map in it, before the first write. Later writes show in that
// map in every way of reading.
func TestMapOpenedBeforeTheFirstWrite(t *testing.T) {
	mem := vfs.NewMem()
	w := kit.OpenOn(t, mem, kit.WithInline())
	r := kit.OpenOn(t, mem, kit.WithInline(), copal.ReadOnly())
	m := kit.MapOf[string, int](t, r, "m")
	for n, key := range []string{"a", "b"} {
		kit.MustSet(t, kit.MapOf[string, int](t, w, "m"), key, n+1)
		if err := r.Refresh(); err != nil {
			t.Fatal(err)
		}
	}
	kit.WantLoad(t, m, "a", 1)
	kit.WantLoad(t, m, "b", 2)
	kit.WantRaw(t, r, "m:a", "1")
	if n := m.Len(); n != 2 {
		t.Errorf("Len = %d, want 2", n)
	}
	n := 0
	for range m.All() {
		n++
	}
	if n != 2 {
		t.Errorf("All yields %d entries, want 2", n)
	}
	s := kit.MustSnapshot(t, r)
	defer s.Close()
	if v, err := m.At(s).Load("a"); v != 1 || err != nil {
		t.Errorf("in a snapshot a is %d, %v", v, err)
	}
	err := r.View(func(tx *copal.Tx) error {
		v, err := m.In(tx).Load("b")
		if v != 2 {
			t.Errorf("in a transaction b is %d", v)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A snapshot of a store in which nothing was written is empty, and stays so.
func TestSnapshotBeforeTheFirstWrite(t *testing.T) {
	mem := vfs.NewMem()
	w := kit.OpenOn(t, mem, kit.WithInline())
	r := kit.OpenOn(t, mem, kit.WithInline(), copal.ReadOnly())
	m := kit.MapOf[string, int](t, r, "m")
	s := kit.MustSnapshot(t, r)
	defer s.Close()
	kit.MustSet(t, kit.MapOf[string, int](t, w, "m"), "a", 1)
	if err := r.Refresh(); err != nil {
		t.Fatal(err)
	}
	kit.WantLoad(t, m, "a", 1)
	if v, err := m.At(s).Load("a"); !errors.Is(err, copal.ErrNotFound) {
		t.Errorf("in the snapshot a is %d, %v", v, err)
	}
	for k, v := range m.At(s).All() {
		t.Errorf("the snapshot yields %s = %d", k, v)
	}
	for k, v := range s.Raw().Prefix(nil) {
		t.Errorf("the snapshot yields %s = %s", k, v)
	}
}

// A watch of a store without a record yields the first writes as soon as a look has found them. It
// does not wait for later ones.
func TestWatchBeforeTheFirstWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		w := kit.OpenOn(t, mem, kit.WithInline())
		r := kit.OpenOn(t, mem, kit.WithInline(), copal.ReadOnly())
		heard := listen(t, r)
		for _, key := range []string{"k0", "k1", "k2"} {
			kit.MustPut(t, w, key, "v")
		}
		if err := r.Refresh(); err != nil {
			t.Fatal(err)
		}
		heard.want("k0", "k1", "k2")
		kit.MustPut(t, w, "k3", "v")
		if err := r.Refresh(); err != nil {
			t.Fatal(err)
		}
		heard.want("k3")
	})
}

// listener reads a watch while it waits, within a bubble of synctest.
type listener struct {
	t    *testing.T
	keys []string
	err  error
}

// listen returns when the watch waits.
func listen(t *testing.T, db *copal.DB, opts ...copal.WatchOption) *listener {
	h := &listener{t: t}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c, err := range db.Watch(ctx, opts...) {
			if err != nil {
				h.err = err
				return
			}
			h.keys = append(h.keys, string(c.Key))
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	synctest.Wait()
	return h
}

// want compares the changes since its last call.
func (h *listener) want(keys ...string) {
	h.t.Helper()
	synctest.Wait()
	if h.err != nil || !slices.Equal(h.keys, keys) {
		h.t.Errorf("the watch tells %q, %v, want %q", h.keys, h.err, keys)
	}
	h.keys = nil
}

// TestFollowerOfADroppedMap: a reader that has a map open sees it empty when the writer has dropped
// it. Entries that the writer then keeps under its name, of other types, do not fit the open map,
// and fit one that is opened again.
func TestFollowerOfADroppedMap(t *testing.T) {
	mem := vfs.NewMem()
	w := kit.OpenOn(t, mem)
	r := kit.OpenOn(t, mem, copal.ReadOnly(), kit.WithInline())
	for _, opts := range [][]copal.MapOption{nil, {copal.Ordered()}} {
		names := kit.MapOf[string, int](t, w, "m", opts...)
		kit.MustSet(t, names, "a", 1)
		kit.MustSet(t, names, "7", 1)
		refresh := func() {
			if err := r.Refresh(); err != nil {
				t.Fatal(err)
			}
		}
		refresh()
		read := kit.MapOf[string, int](t, r, "m", opts...)
		kit.WantLoad(t, read, "a", 1)
		s, err := r.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		kit.MustClose(t, names)
		if err := w.Drop("m"); err != nil {
			t.Fatal(err)
		}
		refresh()
		if n := len(maps.Collect(read.All())); n > 0 || read.Len() > 0 || read.Has("a") {
			t.Errorf("the dropped map has %d entries, and says %d", n, read.Len())
		}
		kit.WantLoad(t, read.At(s), "a", 1)
		numbers := kit.MapOf[int, string](t, w, "m", opts...)
		kit.MustSet(t, numbers, 7, "seven")
		kit.MustSet(t, numbers, 10, "ten")
		refresh()
		if _, err := read.Load("a"); !errors.Is(err, copal.ErrNotFound) {
			t.Errorf("Load of what was dropped: %v", err)
		}
		if _, err := read.Load("7"); !errors.Is(err, copal.ErrType) {
			t.Errorf("Load of a value of another type: %v", err)
		}
		kit.WantLoad(t, read.At(s), "7", 1)
		kit.MustClose(t, read)
		again := kit.MapOf[int, string](t, r, "m", opts...)
		kit.WantLoad(t, again, 7, "seven")
		if keys := slices.Collect(again.KeysBetween(0, 1000)); !slices.Equal(keys, []int{7, 10}) {
			t.Errorf("the keys are %v", keys)
		}
		kit.MustClose(t, s)
		kit.MustClose(t, again)
		kit.MustClose(t, numbers)
		if err := w.Drop("m"); err != nil {
			t.Fatal(err)
		}
	}
}
