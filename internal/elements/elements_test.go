package elements_test

import (
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/elements"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

var (
	zset = driver.Of{Key: []byte("z"), Type: engine.SortedSetType}
	list = driver.Of{Key: []byte("l"), Type: engine.ListType}
)

// each runs a test with the collections of a store, and with those of a transaction.
func each(t *testing.T, test func(t *testing.T, c *elements.Collections)) {
	t.Run("store", func(t *testing.T) { test(t, elements.Of(storetest.Open(t, vfs.NewMem()), nil)) })
	t.Run("transaction", func(t *testing.T) {
		err := storetest.Open(t, vfs.NewMem()).Transact(engine.Process, func(tx *engine.Tx) error {
			test(t, elements.OfTx(tx))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func set(t *testing.T, c *elements.Collections, scores map[string]float64) {
	t.Helper()
	var edits []driver.Element
	for m, score := range scores {
		edits = append(edits, driver.Element{Sub: []byte(m), Score: score})
	}
	if _, err := c.Edit(t.Context(), zset, edits, engine.Process); err != nil {
		t.Fatal(err)
	}
}

// TestPopOfAMemberThatMoves: a member that gets another score while it is being popped stays, and the one that is
// first then is popped.
func TestPopOfAMemberThatMoves(t *testing.T) {
	each(t, func(t *testing.T, c *elements.Collections) {
		set(t, c, map[string]float64{"a": 1, "b": 2, "c": 3})
		var shown []string
		ok, err := c.Pop(t.Context(), zset, false, engine.Process, func(e *driver.Element) error {
			if shown = append(shown, string(e.Sub)); len(shown) == 1 {
				set(t, c, map[string]float64{"a": 4})
			}
			return nil
		})
		if !ok || err != nil || !slices.Equal(shown, []string{"a", "b"}) {
			t.Errorf("%v, %v after %q were shown", ok, err, shown)
		}
		var left []string
		for e, err := range c.Ranked(t.Context(), zset, 0, 9, false) {
			if left = append(left, string(e.Sub)); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(left, []string{"c", "a"}) {
			t.Errorf("%q are left", left)
		}
	})
}

// TestPopOfAnElementThatGoes: an element that another removes while it is being popped is popped once, and the one
// that is first then is the second.
func TestPopOfAnElementThatGoes(t *testing.T) {
	each(t, func(t *testing.T, c *elements.Collections) {
		values := []driver.Element{{Value: []byte("a")}, {Value: []byte("b")}, {Value: []byte("c")}}
		if n, err := c.Push(t.Context(), list, values, false, true, engine.Process); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		var shown []string
		ok, err := c.Pop(t.Context(), list, false, engine.Process, func(e *driver.Element) error {
			if shown = append(shown, string(e.Value)); len(shown) == 1 {
				return c.Trim(t.Context(), list, 0, 1, engine.Process)
			}
			return nil
		})
		if !ok || err != nil || !slices.Equal(shown, []string{"a", "b"}) {
			t.Errorf("%v, %v after %q were shown", ok, err, shown)
		}
		if n, err := c.Count(t.Context(), list); n != 1 || err != nil {
			t.Errorf("%d are left, %v", n, err)
		}
	})
}
