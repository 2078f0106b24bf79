package models

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

// TestInterplay compares the store with the model, a snapshot with an earlier state, and the copy
// that a watch keeps with the present.

func (x *interplay[V]) checkSnapshot(s snapped) {
	m := x.m.At(s.s)
	got := map[string]thing{}
	for k := range kit.KeysWith(s.s.Raw(), "m:") {
		got[string(k)] = thing{}
	}
	if want := slices.Sorted(maps.Keys(s.what)); !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		x.t.Errorf("the snapshot has %q, want %q", slices.Sorted(maps.Keys(got)), want)
	}
	if n := m.Len(); n != len(s.what) {
		x.t.Errorf("the snapshot counts %d, want %v", n, s.what)
	}
	values := map[string]int{}
	for k, v := range m.All() {
		values["m:"+k] = x.number(v)
	}
	want := map[string]int{}
	for k, e := range s.what {
		if e.number != 0 {
			want[k] = e.number
		}
	}
	if !maps.Equal(values, want) {
		x.t.Errorf("the snapshot yields %v, want %v", values, want)
	}
	for _, key := range x.keys {
		e := s.what["m:"+key]
		value, err := s.s.Raw().Load([]byte("m:" + key))
		x.sameRaw("snapshot Get", key, value, err, e)
		if e.hash != "" {
			if got := hashOf(x.db.Raw().Hash([]byte("m:" + key)).At(s.s)); got != e.hash {
				x.t.Errorf("in the snapshot hash %q is%s, want %v", key, got, e)
			}
			continue
		}
		v, err := m.Load(key)
		if x.found(err, e); err == nil && x.number(v) != e.number {
			x.t.Errorf("in the snapshot %q is %v, want %v", key, v, e)
		}
	}
}

// read looks at one key in one way.
func (x *interplay[V]) read(key string) {
	e := x.shown(key)
	switch x.rng.IntN(4) {
	case 0:
		v, ok := x.m.Get(key)
		if ok != (e.number != 0) || ok && x.number(v) != e.number {
			x.t.Errorf("Get(%q) = %v, %v, want %+v", key, v, ok, e)
		}
	case 1:
		v, err := x.m.Load(key)
		if e.hash != "" {
			x.wantType("Load", err)
		} else if x.found(err, e); err == nil && x.number(v) != e.number {
			x.t.Errorf("Load(%q) = %v, want %+v", key, v, e)
		}
	case 2:
		ttl, err := x.m.TTL(key)
		x.found(err, e)
		want := time.Duration(0)
		if e.deadline != 0 && e != (thing{}) {
			want = time.Duration(e.deadline-x.now()) * time.Millisecond
		}
		if ttl != want {
			x.t.Errorf("TTL(%q) = %v, want %v", key, ttl, want)
		}
	case 3:
		x.rawRead(key, x.entry(key))
	}
}

func (x *interplay[V]) compare() {
	shown, values, logged := map[string]bool{}, map[string]int{}, x.all()
	for _, key := range x.keys {
		if e := x.shown(key); e != (thing{}) {
			if shown[key] = true; e.number != 0 {
				values[key] = e.number
			}
		}
	}
	if n := x.m.Len(); n != len(shown) {
		x.t.Errorf("Len = %d, want %v", n, shown)
	}
	got := map[string]int{}
	var order []string
	for k, v := range x.m.All() {
		if _, twice := got[k]; twice {
			x.t.Errorf("All yields %q twice", k)
		}
		order = append(order, k)
		got[k] = x.number(v)
	}
	if !maps.Equal(got, values) {
		x.t.Errorf("All yields %v, want %v", got, values)
	}
	if kit.IsOrdered(x.m) && !slices.IsSorted(order) {
		x.t.Errorf("All yields %v", order)
	}
	var keys []string
	for k := range x.m.Keys() {
		keys = append(keys, k)
	}
	if want := slices.Sorted(maps.Keys(shown)); !slices.Equal(slices.Sorted(slices.Values(keys)), want) {
		x.t.Errorf("Keys yields %q, want %q", keys, want)
	}
	var down []string
	for k := range x.m.Backward().All() {
		down = append(down, k)
	}
	slices.Reverse(down)
	if want := slices.Sorted(maps.Keys(values)); !slices.Equal(down, want) {
		x.t.Errorf("Backward yields %q, want %q", down, want)
	}
	if x.rng.IntN(2) == 0 {
		return
	}
	clear(x.earlier)
	keys = nil
	for k := range x.db.Raw().Keys() {
		keys = append(keys, string(k))
	}
	if want := slices.Sorted(maps.Keys(logged)); !slices.Equal(keys, want) {
		x.t.Errorf("ScanKeys yields %q, want %q", keys, want)
	}
	if n := x.db.Raw().Len(); n != len(shown) {
		x.t.Errorf("DB.Len = %d, want %v", n, shown)
	}
	for _, key := range x.keys {
		x.wantStored(key)
	}
	x.catchUp()
}

func (x *interplay[V]) wantStored(key string) {
	x.t.Helper()
	if got, want := x.stored(key), x.entry(key); got != want {
		x.t.Errorf("the store has %q as %v, want %v", key, got, want)
	}
}

// watch begins to watch, from where it was.
func (x *interplay[V]) watch() {
	next, stop := iter.Pull2(x.db.Watch(context.Background(), copal.WithAfter(x.seq)))
	x.next, x.stop = next, stop
}

// catchUp reads the watch to its end. The copy equals the log then.
func (x *interplay[V]) catchUp() {
	x.must(x.db.Sync())
	clear(x.earlier)
	x.must(x.db.Raw().Set([]byte("mark"), []byte(fmt.Sprint(x.last))))
	defer x.db.Raw().Delete([]byte("mark"))
	for {
		c, err, ok := x.next()
		if errors.Is(err, copal.ErrHistoryLost) {
			x.stop()
			s, err := x.db.Snapshot()
			x.must(err)
			x.seq, x.watched = s.Seq(), x.all()
			x.must(s.Close())
			x.watch()
			return
		}
		if !ok || err != nil {
			x.t.Fatalf("the watch ends: %v, %v", ok, err)
		}
		x.seq = c.Seq
		if string(c.Key) == "mark" {
			if v, err := c.Value(); !c.Deleted && err == nil && string(v) == fmt.Sprint(x.last) {
				break
			}
			continue
		}
		x.hear(&c)
	}
	for _, key := range x.keys {
		got, want := x.alive(x.watched["m:"+key]), x.entry(key)
		if got != want {
			x.t.Errorf("the watch tells %q is %v, want %v", key, got, want)
		}
	}
}

// hear applies a change of the watch to the copy.
func (x *interplay[V]) hear(c *copal.Change) {
	key := string(c.Key)
	had := x.watched[key]
	e := thing{}
	switch {
	case c.Element != nil:
		e.hash = x.hearField(fields(had.hash), c)
	case c.Deleted:
	case c.Created: // and its fields follow
	case c.From != nil:
		e.hash = x.stored(strings.TrimPrefix(key, "m:")).hash
	case c.Collection != "":
		e.hash = had.hash
	default:
		v, err := c.Value()
		x.must(err)
		e.number = x.numberIn(v)
	}
	if !c.Deadline.IsZero() {
		e.deadline = c.Deadline.UnixMilli()
	}
	x.log("watch: %q %q %v", c.Key, c.Element, e)
	x.watched[key] = e
}

func (x *interplay[V]) hearField(all map[string]string, c *copal.Change) string {
	if c.Deleted {
		delete(all, string(c.Element))
		return joined(all)
	}
	v, err := c.Value()
	x.must(err)
	all[string(c.Element)] = string(v)
	return joined(all)
}
