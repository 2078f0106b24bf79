package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
)

// TestDumps moves whole entries of keys.
func TestDumps(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		d := at.driver(t)
		dumps, keys := d.(driver.Dumps), [3][]byte{[]byte("from"), []byte("to"), []byte("none")}
		if _, err := d.Write(t.Context(), &driver.Write{Key: keys[0], Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
		dump, err := dumps.Dump(t.Context(), keys[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, deadline := range []uint64{4e12, 0} { // the second in the place of the first
			if err := dumps.Restore(t.Context(), keys[1], dump, deadline, engine.Process); err != nil {
				t.Fatal(err)
			}
			e, err := d.Get(t.Context(), keys[1], true)
			if string(e.Value) != "v" || e.Deadline != deadline || err != nil {
				t.Errorf("it is %q until %d, %v", e.Value, e.Deadline, err)
			}
		}
		if err := dumps.Restore(t.Context(), keys[1], dump, 1, engine.Process); err != nil {
			t.Error(err)
		}
		for _, key := range keys[1:] {
			if _, err := dumps.Dump(t.Context(), key); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("key %q: %v", key, err)
			}
		}
		if err := dumps.Restore(t.Context(), keys[1], []byte("rubbish"), 0, engine.Process); err == nil {
			t.Error("rubbish is taken")
		}
	})
}

// TestServedMore: a server of copal knows maps, content types and the elements of streams.
func TestServedMore(t *testing.T) {
	d := target{name: "copal", start: serveCopal}.driver(t)
	maps := d.(driver.Maps)
	for _, name := range []string{"b:c", "a"} {
		if err := maps.DeclareMap(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := maps.Maps(t.Context()); !slices.Equal(names, []string{"a", "b:c"}) || err != nil {
		t.Errorf("the maps are %q, %v", names, err)
	}
	write := func(key, content string) *driver.Write {
		return &driver.Write{Key: []byte(key), Value: []byte("v"), Content: content, Deadline: 4e12}
	}
	if _, err := d.Write(t.Context(), write("1", "image/png")); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteAll(t.Context(), []*driver.Write{write("2", "text/html"), write("3", "")}); err != nil {
		t.Fatal(err)
	}
	want := []string{"image/png", "text/html", ""}
	for e, err := range d.(driver.Sorted).InOrder(t.Context(), keyrange.Keys(engine.Span{}), false, true) {
		if err != nil || len(want) == 0 || e.Content != want[0] || e.Deadline != 4e12 || string(e.Value) != "v" {
			t.Fatalf("%q is %q until %d, %v; want %q", e.Key, e.Content, e.Deadline, err, want)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("%q are missing", want)
	}

	collections := d.(driver.Whole)
	of := driver.Of{Key: []byte("s"), Type: engine.StreamType}
	var elements []driver.Element
	for i := range 2500 {
		elements = append(elements, driver.Element{Sub: fmt.Appendf(nil, "e%04d", i), Value: fmt.Append(nil, i)})
	}
	if _, err := collections.Edit(t.Context(), of, elements, engine.Process); err != nil {
		t.Fatal(err)
	}
	for e, err := range collections.Elements(t.Context(), of) {
		if err != nil || len(elements) == 0 || string(e.Sub) != string(elements[0].Sub) || string(e.Value) != string(elements[0].Value) {
			t.Fatalf("%q, %q, %v came before %d others", e.Sub, e.Value, err, len(elements))
		}
		elements = elements[1:]
	}
	if len(elements) > 0 {
		t.Errorf("%d elements are missing", len(elements))
	}
	if _, err := collections.Edit(t.Context(), of, []driver.Element{{Sub: []byte("e0001"), Delete: true}}, engine.Process); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	of.Key = []byte("1")
	for _, err := range collections.Elements(t.Context(), of) {
		if !errors.Is(err, copal.ErrType) {
			t.Error(err)
		}
	}
	if _, err := collections.Edit(t.Context(), of, []driver.Element{{Sub: []byte("a")}}, engine.Power); !errors.Is(err, copal.ErrType) {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := maps.Maps(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
