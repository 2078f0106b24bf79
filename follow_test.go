package copal_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// A reader opens a store, and a map in it, before the first write. What is written then shows in that
// map in every way of reading.
func TestMapOpenedBeforeTheFirstWrite(t *testing.T) {
	mem := vfs.NewMem()
	w := openOn(t, mem, copal.WithInline())
	r := openOn(t, mem, copal.WithInline(), copal.ReadOnly())
	m := mapOf[string, int](t, r, "m")
	for n, key := range []string{"a", "b"} {
		mustSet(t, mapOf[string, int](t, w, "m"), key, n+1)
		if err := r.Refresh(); err != nil {
			t.Fatal(err)
		}
	}
	wantLoad(t, m, "a", 1)
	wantLoad(t, m, "b", 2)
	wantRaw(t, r, "m:a", "1")
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
	s := mustSnapshot(t, r)
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
	w := openOn(t, mem, copal.WithInline())
	r := openOn(t, mem, copal.WithInline(), copal.ReadOnly())
	m := mapOf[string, int](t, r, "m")
	s := mustSnapshot(t, r)
	defer s.Close()
	mustSet(t, mapOf[string, int](t, w, "m"), "a", 1)
	if err := r.Refresh(); err != nil {
		t.Fatal(err)
	}
	wantLoad(t, m, "a", 1)
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

// A watch of a store without a record tells the first writes as soon as a look has found them. It does
// not wait for later ones.
func TestWatchBeforeTheFirstWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		w := openOn(t, mem, copal.WithInline())
		r := openOn(t, mem, copal.WithInline(), copal.ReadOnly())
		heard := listen(t, r)
		for _, key := range []string{"k0", "k1", "k2"} {
			mustPut(t, w, key, "v")
		}
		if err := r.Refresh(); err != nil {
			t.Fatal(err)
		}
		heard.want("k0", "k1", "k2")
		mustPut(t, w, "k3", "v")
		if err := r.Refresh(); err != nil {
			t.Fatal(err)
		}
		heard.want("k3")
	})
}

// listener hears what a watch tells while it waits, within a bubble of synctest.
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

// want compares what was told since the last time.
func (h *listener) want(keys ...string) {
	h.t.Helper()
	synctest.Wait()
	if h.err != nil || !slices.Equal(h.keys, keys) {
		h.t.Errorf("the watch tells %q, %v, want %q", h.keys, h.err, keys)
	}
	h.keys = nil
}
