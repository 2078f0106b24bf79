package tx

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
)

// slowItem is a value whose decoding calls a function, as a caller's may.
type slowItem struct{ N int }

var itemDecoded func()

func (q *slowItem) UnmarshalJSON(b []byte) error {
	itemDecoded()
	_, err := fmt.Sscan(string(b), &q.N)
	return err
}

func (q slowItem) MarshalJSON() ([]byte, error) { return fmt.Append(nil, q.N), nil }

// contended is a kind of change that loses when another one comes between its read and its write.
type contended struct {
	name   string
	change func() (place int, err error) // calls itemDecoded when it has read; places rise from change to change
	spoil  func() error                  // a change that comes between
}

func contendedChanges(t *testing.T, db *copal.DB) []contended {
	m, err := copal.OpenMap[string, int](db, "m")
	h, err2 := copal.OpenHash[string, int](db, "h")
	z, err3 := copal.OpenSortedSet[string](db, "z")
	l, err4 := copal.OpenList[slowItem](db, "l")
	sorted, err5 := copal.OpenSortedSet[string](db, "sorted")
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := errors.Join(l.PushBack(slowItem{i}), sorted.Set(fmt.Sprint(i), float64(i))); err != nil {
			t.Fatal(err)
		}
	}
	raw := db.Raw()
	add := func(e *copal.Entry[int]) error { itemDecoded(); e.Value++; return nil }
	pop := func(pop func() (slowItem, bool, error), sign int) func() (int, error) {
		return func() (int, error) {
			item, ok, err := pop()
			if err == nil && !ok {
				err = errors.New("nothing was popped")
			}
			return sign * item.N, err
		}
	}
	return []contended{
		{"Map.Update", func() (int, error) {
			n, _, err := m.Update("k", add)
			return n, err
		}, func() error { return m.Set("k", 0) }},
		{"Raw.Update", func() (int, error) {
			b, _, err := raw.Update([]byte("r"), func(e *copal.Entry[[]byte]) error { itemDecoded(); e.Value = append(e.Value, 'x'); return nil })
			return len(b), err
		}, func() error { return raw.Set([]byte("r"), nil) }},
		{"HashOf.Update", func() (int, error) {
			n, _, err := h.Update("f", add)
			return n, err
		}, func() error { return h.Set("f", 0) }},
		{"SortedSetOf.Update", func() (int, error) {
			n, _, err := z.Update("f", func(e *copal.Entry[float64]) error { itemDecoded(); e.Value++; return nil })
			return int(n), err
		}, func() error { return z.Set("f", 0) }},
		{"ListOf.PopFront", pop(l.PopFront, 1), func() error { return l.PushFront(slowItem{-1}) }},
		{"ListOf.PopBack", pop(l.PopBack, -1), func() error { return l.PushBack(slowItem{100}) }},
	}
}

// TestChangesTakeTurns: changes of one subject come one after the other as soon as one has lost.
// None is overtaken by a later one, be it one that has not lost yet.
func TestChangesTakeTurns(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	defer func() { engine.TurnAwaited = func() {} }()
	for _, c := range contendedChanges(t, db) {
		t.Run(c.name, func(t *testing.T) {
			const others = 6
			var tries atomic.Int32
			lost, release := make(chan struct{}), make(chan struct{})
			awaits := make(chan struct{})
			engine.TurnAwaited = func() { awaits <- struct{}{} }
			itemDecoded = func() {
				switch tries.Add(1) {
				case 1:
					spoilt := make(chan error)
					go func() { spoilt <- c.spoil() }()
					if err := <-spoilt; err != nil {
						t.Error(err)
					}
				case 2:
					close(lost)
					<-release
				}
			}
			places := make([]int, 1+others)
			done := make(chan error, 1+others)
			run := func(i int) {
				var err error
				places[i], err = c.change()
				done <- err
			}
			go run(0)
			<-lost
			for i := 1; i <= others; i++ {
				go run(i)
				select {
				case <-awaits:
				case err := <-done:
					t.Fatalf("change %d did not await its turn: %v", i, err)
				}
			}
			close(release)
			for range places {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			if !slices.IsSorted(places) {
				t.Errorf("changes that came in the order of this list got the places %v", places)
			}
		})
	}
}

// TestUpdatesOfBothKindsNest: updates of an entry within those of a field, and the other way round,
// do not wait for each other.
func TestUpdatesOfBothKindsNest(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m, err := copal.OpenMap[string, int](db, "m")
	h, err2 := copal.OpenHash[string, int](db, "h")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	plus := func(e *copal.Entry[int]) error { e.Value++; return nil }
	entry := func(f func() error) error {
		_, _, err := m.Update("k", func(e *copal.Entry[int]) error { e.Value++; return f() })
		return err
	}
	field := func(f func() error) error {
		_, _, err := h.Update("f", func(e *copal.Entry[int]) error { e.Value++; return f() })
		return err
	}
	// Each is at the head of its queue when it begins with the other's subject.
	both := make(chan struct{}, 2)
	var heads atomic.Int32
	meet := func(spoil func(func(*copal.Entry[int]) error) error, inner func() error) func() error {
		calls := 0
		return func() error {
			switch calls++; calls {
			case 1:
				spoilt := make(chan error)
				go func() { spoilt <- spoil(plus) }()
				return <-spoilt
			case 2:
				if heads.Add(1) == 2 {
					both <- struct{}{}
					both <- struct{}{}
				}
				<-both
				return inner()
			}
			return nil
		}
	}
	done := make(chan error)
	none := func() error { return nil }
	setEntry := func(f func(*copal.Entry[int]) error) error { _, _, err := m.Update("k", f); return err }
	setField := func(f func(*copal.Entry[int]) error) error { _, _, err := h.Update("f", f); return err }
	go func() { done <- entry(meet(setEntry, func() error { return field(none) })) }()
	go func() { done <- field(meet(setField, func() error { return entry(none) })) }()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
