package collections

import (
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// twinsOf returns the FSync twins of collections, each of which makes or removes the element of its
// name.
func twinsOf(t *testing.T, db *copal.DB, s *copal.Snapshot) map[string]struct {
	write func() error
	done  func() bool
} {
	t.Helper()
	hash, err1 := copal.OpenHash[string, int](db, "hash")
	set, err2 := copal.OpenSet[string](db, "set")
	scores, err3 := copal.OpenSortedSet[string](db, "scores")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if s != nil {
		hash, set, scores = hash.At(s), set.At(s), scores.At(s)
	}
	return map[string]struct {
		write func() error
		done  func() bool
	}{
		"HashOf.SetFSync":         {func() error { return hash.SetFSync("set", 1) }, func() bool { return hash.Has("set") }},
		"HashOf.DeleteFSync":      {func() error { _, err := hash.DeleteFSync("gone"); return err }, func() bool { return !hash.Has("gone") }},
		"HashOf.UpdateFSync":      {func() error { _, _, err := hash.UpdateFSync("new", setTo(1)); return err }, func() bool { return hash.Has("new") }},
		"HashOf.With.Clear":       {func() error { _, err := hash.With(copal.FSync).Clear(); return err }, func() bool { return hash.Len() == 0 }},
		"SetOf.With.Clear":        {func() error { _, err := set.With(copal.FSync).Clear(); return err }, func() bool { return set.Len() == 0 }},
		"SortedSetOf.With.Clear":  {func() error { _, err := scores.With(copal.FSync).Clear(); return err }, func() bool { return scores.Len() == 0 }},
		"SortedSetOf.With.Rename": {func() error { return scores.With(copal.FSync).Rename("moved") }, func() bool { return scores.Len() == 0 }},
		"SetOf.DeleteFSync":       {func() error { _, err := set.DeleteFSync("gone"); return err }, func() bool { return !set.Has("gone") }},
		"SetOf.With.Add":          {func() error { _, err := set.With(copal.FSync).Add("new"); return err }, func() bool { return set.Has("new") }},
		"SortedSetOf.SetFSync":    {func() error { return scores.SetFSync("set", 1) }, func() bool { return scores.Has("set") }},
		"SortedSetOf.DeleteFSync": {func() error { _, err := scores.DeleteFSync("gone"); return err }, func() bool { return !scores.Has("gone") }},
		"SortedSetOf.UpdateFSync": {func() error { _, _, err := scores.UpdateFSync("new", setTo(1.0)); return err }, func() bool { return scores.Has("new") }},
		"SortedSetOf.With.SetAll": {func() error { return scores.With(copal.FSync).SetAll(map[string]float64{"all": 1}) }, func() bool { return scores.Has("all") }},
	}
}

func setTo[V any](v V) func(*copal.Entry[V]) error {
	return func(e *copal.Entry[V]) error { e.Set(v); return nil }
}

// TestTwinsOfCollections: a change with FSync survives the loss of power, and a snapshot refuses
// it.
func TestTwinsOfCollections(t *testing.T) {
	for name := range twinsOf(t, kit.Memory(t), nil) {
		mem := vfs.NewCrashMem()
		db := kit.OpenOn(t, mem, kit.WithInline())
		hash, err1 := copal.OpenHash[string, int](db, "hash")
		set, err2 := copal.OpenSet[string](db, "set")
		scores, err3 := copal.OpenSortedSet[string](db, "scores")
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		_, err := set.Add("gone", "stays")
		err = errors.Join(err, hash.SetAll(map[string]int{"gone": 0, "stays": 0}),
			scores.SetAll(map[string]float64{"gone": 0, "stays": 0}), db.Sync())
		if err != nil {
			t.Fatal(err)
		}
		snapshot, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if err := twinsOf(t, db, snapshot)[name].write(); !errors.Is(err, copal.ErrSnapshot) {
			t.Errorf("%s at a snapshot: %v", name, err)
		}
		if err := errors.Join(snapshot.Close(), twinsOf(t, db, nil)[name].write()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for cut := range mem.PowerCuts(8, nil) {
			after := kit.OpenOn(t, cut, kit.WithInline())
			if !twinsOf(t, after, nil)[name].done() {
				t.Errorf("%s does not survive the loss of power", name)
			}
			kit.MustClose(t, after)
		}
		kit.MustClose(t, db)
	}
}
