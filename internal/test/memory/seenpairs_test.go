package memory

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
)

// A change that one way of reading has shown is shown by all others afterwards, also while the
// write has not returned yet. Each round of these tests makes one, looks in one way until that
// shows it, and then in another.

// look is one way of reading an entry. It returns the value, 0 for none, and there if it shows only
// that there is one.
type look struct {
	name string
	read func() (int, error)
}

const there = -1

func presence(is bool) int {
	if is {
		return there
	}
	return 0
}

// found returns the results of a read, with 0 and no error for ErrNotFound.
func found(x int, err error) (int, error) {
	if errors.Is(err, copal.ErrNotFound) {
		return 0, nil
	}
	return x, err
}

// foundRaw is found of a raw value.
func foundRaw(b []byte, err error) (int, error) {
	if err == nil {
		var x int
		x, err = strconv.Atoi(string(b))
		return x, err
	}
	return found(0, err)
}

// quickLooks take less time than a change does, so that they are over while that is not.
const quickLooks = 4

// looksOf returns the ways of reading a key of an open map, which has one more. Those after the
// first of the map alone see the entry that the log has or will have.
func looksOf(db *copal.DB, m *copal.Map[string, int], key string, inMemory bool) []look {
	whole := m.Name() + ":" + key
	list := []look{
		{"Len", func() (int, error) { return presence(m.Len() > 1), nil }},
		{"Get", func() (int, error) { x, _ := m.Get(key); return x, nil }},
		{"Load", func() (int, error) { return found(m.Load(key)) }},
		{"Keys", func() (x int, err error) {
			for k := range m.Keys() {
				if k == key {
					x = there
				}
			}
			return x, nil
		}},
		{"All", func() (x int, err error) {
			for k, v := range m.All() {
				if k == key {
					x = v
				}
			}
			return x, nil
		}},
		{"Update", func() (int, error) {
			x, _, err := m.Update(key, func(u *copal.Entry[int]) error { u.Cancel(); return nil })
			return x, err
		}},
		{"TTL", func() (int, error) {
			_, err := m.TTL(key)
			return found(there, err)
		}},
	}
	if inMemory {
		return list
	}
	snapshot := func(read func(s *copal.Snapshot) (int, error)) func() (int, error) {
		return func() (int, error) {
			s, err := db.Snapshot()
			if err != nil {
				return 0, err
			}
			defer s.Close()
			return read(s)
		}
	}
	return append(list, []look{
		{"DB.Get", func() (int, error) { return foundRaw(db.Raw().Load([]byte(whole))) }},
		{"DB.Has", func() (int, error) {
			has, err := kit.Has(db.Raw(), []byte(whole))
			return presence(has), err
		}},
		{"DB.Len", func() (int, error) { return presence(db.Raw().Len() > 1), nil }},
		{"DB.ViewValue", func() (x int, err error) {
			err = db.Raw().View([]byte(whole), func(b []byte) (err error) { x, err = foundRaw(b, nil); return err })
			return found(x, err)
		}},
		{"DB.Scan", func() (x int, err error) {
			for k, v := range db.Raw().Prefix(nil) {
				if string(k) == whole {
					x, err = foundRaw(v, nil)
				}
			}
			return x, err
		}},
		{"DB.ScanKeys", func() (x int, err error) {
			for k := range db.Raw().Keys() {
				if string(k) == whole {
					x = there
				}
			}
			return x, nil
		}},
		{"MapAt.Load", snapshot(func(s *copal.Snapshot) (int, error) { return found(m.At(s).Load(key)) })},
		{"MapAt.Len", snapshot(func(s *copal.Snapshot) (int, error) { return presence(m.At(s).Len() > 1), nil })},
		{"MapAt.All", snapshot(func(s *copal.Snapshot) (x int, err error) {
			for k, v := range m.At(s).All() {
				if k == key {
					x = v
				}
			}
			return x, nil
		})},
		{"Snapshot.Scan", snapshot(func(s *copal.Snapshot) (x int, err error) {
			for k, v := range s.Raw().Prefix(nil) {
				if string(k) == whole {
					x, err = foundRaw(v, nil)
				}
			}
			return x, err
		})},
		{"DB.View", func() (x int, err error) {
			err = db.View(func(tx *copal.Tx) (err error) { x, err = found(m.In(tx).Load(key)); return err })
			return x, err
		}},
		{"DB.Update", func() (x int, err error) {
			err = db.Update(func(tx *copal.Tx) (err error) { x, err = foundRaw(tx.Raw().Load([]byte(whole))); return err })
			return x, err
		}},
	}...)
}

// change sets x to a number, and deletes it for 0; it does the same to y, if it is one of several
// entries.
type change struct {
	name     string
	several  bool
	inMemory bool // its change is not in the log
	do       func(db *copal.DB, m *copal.Map[string, int], x int) error
}

var changes = []change{
	{"Set", false, false, func(_ *copal.DB, m *copal.Map[string, int], x int) error { return setOr(x, m.Set, m.Delete) }},
	{"SetAsync", false, false, func(_ *copal.DB, m *copal.Map[string, int], x int) error { return setOr(x, m.SetAsync, m.DeleteAsync) }},
	{"SetAsync and Delete", false, false, func(_ *copal.DB, m *copal.Map[string, int], x int) error { return setOr(x, m.SetAsync, m.Delete) }},
	{"Set and DeleteAsync", false, false, func(_ *copal.DB, m *copal.Map[string, int], x int) error { return setOr(x, m.Set, m.DeleteAsync) }},
	{"SetInMemory and Delete", false, true, func(_ *copal.DB, m *copal.Map[string, int], x int) error {
		return setOr(x, func(key string, x int) error { return errors.Join(m.Set(key, x), m.SetInMemory(key, x)) }, m.Delete)
	}},
	{"UpdateInMemory and DeleteAsync", false, true, func(_ *copal.DB, m *copal.Map[string, int], x int) error {
		return setOr(x, func(key string, x int) error {
			return errors.Join(m.SetAsync(key, x), updateTo(m.UpdateInMemory, key, x))
		}, m.DeleteAsync)
	}},
	{"UpdateAsync", false, false, func(_ *copal.DB, m *copal.Map[string, int], x int) error { return updateTo(m.UpdateAsync, "x", x) }},
	{"Put", false, false, func(db *copal.DB, _ *copal.Map[string, int], x int) error {
		if x == 0 {
			_, err := db.Raw().Delete([]byte("m:x"))
			return err
		}
		return db.Raw().Set([]byte("m:x"), strconv.AppendInt(nil, int64(x), 10))
	}},
	{"Batch", true, false, func(db *copal.DB, _ *copal.Map[string, int], x int) error {
		b := db.Raw().Batch()
		for _, key := range []string{"m:x", "m:y"} {
			if x == 0 {
				b.Delete([]byte(key))
			} else {
				b.Set([]byte(key), strconv.AppendInt(nil, int64(x), 10))
			}
		}
		return b.Commit()
	}},
	{"transaction", true, false, func(db *copal.DB, m *copal.Map[string, int], x int) error {
		return db.Update(func(tx *copal.Tx) error {
			var errs []error
			for _, key := range []string{"x", "y"} {
				if x == 0 {
					_, err := m.In(tx).Delete(key)
					errs = append(errs, err)
				} else {
					errs = append(errs, m.In(tx).Set(key, x))
				}
			}
			return errors.Join(errs...)
		})
	}},
}

func setOr(x int, set func(string, int) error, remove func(string) (bool, error)) error {
	if x != 0 {
		return set("x", x)
	}
	_, err := remove("x")
	return err
}

func updateTo(update func(string, func(*copal.Entry[int]) error) (int, bool, error), key string, x int) error {
	_, _, err := update(key, func(u *copal.Entry[int]) error {
		if u.Set(x); x == 0 {
			u.Delete()
		}

		return nil
	})
	return err
}

func seenRounds() int {
	if testing.Short() {
		return 500
	}
	return 5000
}

// seeing makes a change in each round, by turns to the number of the round and to 0, which another
// goroutine does. When one of the ways first sees it, one of then must.
func seeing(t *testing.T, do func(x int) error, first, then []look) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(len(t.Name()))))
	var x, y look
	choose := func() {
		if x = first[rng.IntN(len(first))]; rng.IntN(4) > 0 {
			x = first[rng.IntN(min(quickLooks, len(first)))]
		}
		if y = then[rng.IntN(len(then))]; rng.IntN(2) > 0 {
			y = then[rng.IntN(min(quickLooks, len(then)))]
		}
	}
	choose()
	wanted := func(i int) int { return i % 2 * i }
	shows := func(l look, i int) bool {
		got, err := l.read()
		if err != nil {
			t.Errorf("%s: %v", l.name, err)
		}
		return got == wanted(i) || got == there && wanted(i) != 0
	}
	afterSeeing(t, seenRounds(), func(i int) error { return do(wanted(i)) }, func(i int) bool { return shows(x, i) }, func(i int) {
		if !shows(y, i) {
			t.Errorf("round %d: what %s has shown %s does not show", i, x.name, y.name)
		}
		choose()
	})
}

func TestWhatOneWayOfReadingHasShown(t *testing.T) {
	for _, c := range changes {
		for name, opts := range map[string][]copal.MapOption{"": nil, ", in order": {copal.Ordered()}} {
			t.Run(c.name+name, func(t *testing.T) {
				db := kit.Memory(t)
				m := kit.MapOf[string, int](t, db, "m", opts...)
				if err := m.Set("another", 1); err != nil {
					t.Fatal(err)
				}
				other := "x"
				if c.several {
					other = "y"
					lookAtParts(t)
				}
				seeing(t, func(x int) error { return c.do(db, m, x) }, looksOf(db, m, "x", c.inMemory), looksOf(db, m, other, c.inMemory))
			})
		}
	}
}

// lookAtParts gives those who read a turn while some changes of a group show and others do not.
func lookAtParts(t *testing.T) {
	engine.PartShown = func() {
		for range 20 {
			runtime.Gosched()
		}
	}
	t.Cleanup(func() { engine.PartShown = func() {} })
}

func TestWhatOneWayOfReadingAHashHasShown(t *testing.T) {
	lookAtParts(t)
	db := kit.Memory(t)
	h, err := copal.OpenHash[string, int](db, "h")
	if err == nil {
		err = h.Set("another", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := func(read func(h *copal.HashOf[string, int]) (int, error)) func() (int, error) {
		return func() (int, error) {
			s, err := db.Snapshot()
			if err != nil {
				return 0, err
			}
			defer s.Close()
			return read(h.At(s))
		}
	}
	length := func(h *copal.HashOf[string, int]) (int, error) { return presence(h.Len() > 1), nil }
	all := func(h *copal.HashOf[string, int]) (x int, err error) {
		for field, v := range h.All() {
			if field == "x" {
				x = v
			}
		}
		return x, nil
	}
	looks := []look{
		{"Len", func() (int, error) { return length(h) }},
		{"Get", func() (int, error) { x, _ := h.Get("x"); return x, nil }},
		{"Has", func() (int, error) { return presence(h.Has("x")), nil }},
		{"All", func() (int, error) { return all(h) }},
		{"Update", func() (int, error) {
			x, _, err := h.Update("x", func(u *copal.Entry[int]) error { u.Cancel(); return nil })
			return x, err
		}},
		{"Len in a snapshot", at(length)},
		{"Load in a snapshot", at(func(h *copal.HashOf[string, int]) (int, error) { return found(h.Load("x")) })},
		{"All in a snapshot", at(all)},
		{"Load in a transaction", func() (x int, err error) {
			err = db.Update(func(tx *copal.Tx) (err error) { x, err = found(h.In(tx).Load("x")); return err })
			return x, err
		}},
	}
	seeing(t, func(x int) error {
		if x == 0 {
			_, err := h.Delete("x")
			return err
		}
		return h.Set("x", x)
	}, looks, looks)
}

// A program that watches, and reads then, gets every change that its read does not show.
func TestWatchAndRead(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	var stop atomic.Bool
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 1; !stop.Load() && err == nil; i++ {
			err = m.Set("x", i)
			runtime.Gosched() // where there is one processor, who watches has his turn
		}
		written <- err
	}()
	for range seenRounds() {
		changes := m.Watch(context.Background())
		x, _ := m.Get("x")
		for c, err := range changes {
			if err != nil {
				t.Fatal(err)
			}
			if c.Value > x+1 {
				t.Errorf("who had begun to watch read %d, and was told of %d next", x, c.Value)
			}
			break
		}
	}
	stop.Store(true)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

// Len is never more than the writes begun, nor less than those done: not even while entries that
// were set asynchronously go to the log.
func TestLenMeanwhile(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[int, int](t, db, "m", copal.Ordered())
	var begun, done atomic.Int64
	written := make(chan error, 1)
	n := 4 * seenRounds()
	go func() {
		var err error
		for i := range n {
			begun.Add(1)
			err = errors.Join(err, m.SetAsync(i, i))
			done.Add(1)
			if _, e := kit.Has(db.Raw(), []byte("m:"+strconv.Itoa(i))); e != nil { // now the log has it
				err = errors.Join(err, e)
			}
		}
		written <- err
	}()
	for low := int64(0); low < int64(n) && !t.Failed(); {
		low = done.Load()
		if got, high := int64(m.Len()), begun.Load(); got < low || got > high {
			t.Errorf("Len = %d, of %d to %d", got, low, high)
		}
		runtime.Gosched()
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

// An entry that was seen, and expires then, is not counted.
func TestSeenAndExpired(t *testing.T) {
	clock := kit.NewManualClock()
	db := kit.Memory(t, kit.WithClock(clock), kit.WithInline())
	m := kit.MapOf[string, int](t, db, "m")
	for name, set := range map[string]func(i int) error{
		"SetTTLAsync": func(i int) error { return m.With(copal.Async).SetTTL("x", i, time.Millisecond) },
		"SetTTL":      func(i int) error { return m.SetTTL("x", i, time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			afterSeeing(t, seenRounds(), set, shows(m), func(i int) {
				clock.Advance(time.Millisecond)
				if n := m.Len(); n != 0 {
					t.Errorf("round %d: Len = %d of an entry that has expired", i, n)
				}
			})
		})
	}
}
