package remote

import (
	"errors"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// The streams of Redis are for its own clients: each verb of a handle says that there are none here.
func TestNoStreams(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		var reported error
		db, err := copal.OpenDriven(at.driver(t), copal.WithErrorHandler(func(err error) { reported = err }))
		if err != nil {
			t.Fatal(err)
		}
		stream := db.Raw().Stream([]byte("s"))
		stream.Len()
		verbs := map[string]error{"Len": reported, "Set": stream.Set("e", nil)}
		_, verbs["Load"] = stream.Load("e")
		_, verbs["Delete"] = stream.Delete("e")
		_, verbs["Clear"] = stream.Clear()
		_, _, verbs["Update"] = stream.Update("e", func(*copal.Entry[[]byte]) error { return nil })
		reported = nil
		for range stream.All() {
		}
		verbs["All"] = reported
		for name, err := range verbs {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestForeignCollections: of a type that copal does not know, such as one of a module, there are no commands. Each
// method says so, and the connection goes on.
func TestForeignCollections(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		d := at.driver(t)
		collections := d.(driver.Whole)
		of := driver.Of{Key: []byte("k"), Type: "ReJSON-RL"}
		edits := []driver.Element{{Sub: []byte("e")}, {Sub: []byte("f"), Delete: true}}
		errs := map[string]error{}
		_, errs["Count"] = collections.Count(t.Context(), of)
		_, errs["Element"] = collections.Element(t.Context(), of, []byte("e"))
		_, errs["Edit"] = collections.Edit(t.Context(), of, edits, engine.Process)
		_, errs["Edit of one"] = collections.Edit(t.Context(), of, edits[:1], engine.Process)
		errs["Update"] = collections.Update(t.Context(), of, edits[0].Sub, engine.Process, func(*driver.Element) (*driver.Element, error) { return &edits[0], nil })
		for _, err := range collections.Elements(t.Context(), of) {
			errs["Elements"] = err
		}
		for name, err := range errs {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(errs) != 6 {
			t.Error("Elements yields nothing")
		}
		if n, err := d.Len(t.Context(), nil); n != 0 || err != nil {
			t.Errorf("%d entries, %v", n, err)
		}
	})
}
