package remote

import (
	"errors"
	"testing"

	"github.com/copaldb/copal"
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
