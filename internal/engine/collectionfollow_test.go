package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
)

// TestCollectionsAreFollowed: a store that is read beside the one that writes shows what that has, through
// sweeps, compactions and reopenings of it.
func TestCollectionsAreFollowed(t *testing.T) {
	f := storetest.NewFollowed(t, 19)
	steps := 300
	if storetest.Long() {
		steps = 20_000
	}
	model := map[string]map[string]string{}
	keys := []string{"a", "m:b", "c"}
	for i := range steps {
		key := keys[f.Rng.IntN(len(keys))]
		var err error
		switch f.Rng.IntN(10) {
		case 0, 1, 2, 3, 4:
			elements := map[string]string{}
			var edits []*engine.Edit
			for range 1 + f.Rng.IntN(5) {
				sub, value := fmt.Sprint(f.Rng.IntN(10)), fmt.Sprint(i, strings.Repeat("x", f.Rng.IntN(100)))
				edits, elements[sub] = append(edits, storetest.HSet(sub, value)...), value
			}
			if f.Rng.IntN(2) == 0 {
				_, err = f.Writer.Clear([]byte(key), engine.HashType, engine.Process)
				model[key] = nil
			}
			if model[key] == nil {
				model[key] = map[string]string{}
			}
			for sub, value := range elements {
				model[key][sub] = value
			}
			storetest.Change(t, f.Writer, key, edits)
		case 5:
			to := keys[f.Rng.IntN(len(keys))]
			if len(model[key]) > 0 && key != to {
				err = f.Writer.Rename([]byte(key), []byte(to), engine.HashType, engine.Process)
				model[to], model[key] = model[key], nil
			}
		case 6:
			err = f.Writer.Sweep()
		case 7, 8:
			err = storetest.CompactRun(f.Writer, f.Rng.IntN(100))
		case 9:
			if f.Rng.IntN(2) == 0 {
				storetest.Close(t, f.Writer)
				f.Open()
			} else {
				f.Open() // it dies
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Rng.IntN(4) > 0 {
			continue
		}
		if err := f.Reader.Refresh(); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			engine.WantModel(t, f.Reader.Collections(), key, model[key])
		}
	}
	if err := f.Reader.Change([]byte("a"), engine.HashType, engine.Process, func(*engine.Plan) ([]*engine.Edit, error) { return storetest.HSet("x", ""), nil }); err != seglog.ErrReadOnly {
		t.Errorf("a change of what is read: %v", err)
	}
}
