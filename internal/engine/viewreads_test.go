package engine

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestReadAwaitsWhatAViewHas: a view is opened between a write's record and its entry in the index, and a later
// write that the view does not have is acknowledged. A read that begins then finds the view's entry.
func TestReadAwaitsWhatAViewHas(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	key, other := []byte("a"), "d"
	table := s.spaces[0].raw
	hash := table.hash(key)
	for mu := s.lockOf(hash); mu == s.lockOf(table.hash([]byte(other))); {
		other += "d"
	}
	mustSet(t, s, "a", "old")
	mustSet(t, s, other, "old")
	mu := s.lockOf(hash)
	mu.Lock()
	w := &Write{Key: key, Value: []byte("new")}
	p := &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: key, Value: w.Value, Shows: true}
	var now state
	if err := s.stateLocked(&now, table, hash, key); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Append(p); err != nil {
		t.Fatal(err)
	}
	opened, read := make(chan *View), make(chan string)
	go func() {
		v, err := s.OpenView()
		if err != nil {
			t.Error(err)
		}
		opened <- v
	}()
	logtest.Until(func() bool { return s.views.open.Load() == 1 })
	mustSet(t, s, other, "new") // which the view does not have
	go func() {
		e, err := s.Get(nil, key)
		if err != nil {
			t.Error(err)
		}
		read <- string(e.Value)
	}()
	for range 20_000 { // it would have come back by now
		runtime.Gosched()
	}
	s.enterLocked(table, &now, w, p, p.Seq)
	s.log.Shown.Add(1)
	mu.Unlock()
	if got := <-read; got != "new" {
		t.Errorf("a read that began when a view with the new value was there finds %q", got)
	}
	v := <-opened
	defer v.Close()
	wantView(t, v, map[string]string{"a": "new", other: "old"}, nil)
	if s.opening.late.Load() != 0 {
		t.Error("readers go on waiting")
	}
}

// TestReadsBehindAView: a read that begins after the acknowledgement of a write that a view lacks sees
// everything in the view. One goroutine sets a, another sets d and reads a then, and a third one looks at both
// in views.
func TestReadsBehindAView(t *testing.T) {
	const rounds = 20_000
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	number := func(e Entry, err error) (n int) {
		if err != nil {
			t.Error(err)
		}
		fmt.Sscan(string(e.Value), &n)
		return n
	}
	mustSet(t, s, "a", "0")
	mustSet(t, s, "d", "0")
	type seen struct{ a, d int }
	var inViews []seen
	behind := make([]int, rounds+1) // by the value of d: a, read afterwards
	var done atomic.Bool
	var others sync.WaitGroup
	others.Go(func() {
		for n := 1; !done.Load(); n++ {
			mustSet(t, s, "a", fmt.Sprint(n))
		}
	})
	others.Go(func() {
		for !done.Load() && !t.Failed() {
			v := mustView(t, s)
			inViews = append(inViews, seen{number(v.Get(nil, []byte("a"))), number(v.Get(nil, []byte("d")))})
			v.Close()
		}
	})
	for n := 1; n <= rounds && !t.Failed(); n++ {
		mustSet(t, s, "d", fmt.Sprint(n))
		behind[n] = number(s.Get(nil, []byte("a")))
	}
	done.Store(true)
	others.Wait()
	for _, v := range inViews {
		if v.d < rounds && behind[v.d+1] < v.a {
			t.Fatalf("a view has a = %d and d = %d; who read a when d was %d found %d", v.a, v.d, v.d+1, behind[v.d+1])
		}
	}
	t.Logf("%d views", len(inViews))
}
