package remote

import (
	"context"
	"errors"
	"testing"

	"github.com/copaldb/copal"
)

// TestAbsenceIsNoOutage: a verb without an error result reports the end of the server, once: to the
// function of OnError, or else to the error handler.
func TestAbsenceIsNoOutage(t *testing.T) {
	for _, at := range inMemory() {
		t.Run(at.name, func(t *testing.T) {
			inBubble(t, at, Config{}, func(t *testing.T, l *line, db *copal.DB, reported func() []error) {
				x := openThings(t, db)
				if err := x.fill(); err != nil {
					t.Fatal(err)
				}
				l.server.Close()
				l.conns.end()
				for _, v := range verbs {
					if v.copal && at.name != "copal" {
						continue
					}
					err := v.do(x)
					said := reported()
					if (err == nil) != v.silent || v.silent && len(said) != 1 || !v.silent && len(said) > 0 && v.name != "DB.Snapshot" {
						t.Errorf("%s returns %v, and the handler gets %q", v.name, err, said)
					}
					if !v.silent || v.store {
						continue
					}
					var own []error
					v.do(x.with(copal.OnError(t.Context(), func(err error) { own = append(own, err) })))
					if said := reported(); len(own) != 1 || len(said) > 0 {
						t.Errorf("%s: the function of OnError gets %q, and the handler %q", v.name, own, said)
					}
				}
			})
		})
	}
}

// TestUnsupportedIsReported: a verb that the server lacks reports that at each use.
func TestUnsupportedIsReported(t *testing.T) {
	inBubble(t, inMemory()[1], Config{}, func(t *testing.T, l *line, db *copal.DB, reported func() []error) {
		x := openThings(t, db)
		if err := x.fill(); err != nil {
			t.Fatal(err)
		}
		for name, do := range map[string]func() error{
			"From":        func() error { return drain2(x.m.From("a")) },
			"Until":       func() error { return drain2(x.m.Until("c")) },
			"Between":     func() error { return drain2(x.m.Between("a", "c")) },
			"Prefix":      func() error { return drain2(x.m.Prefix("a")) },
			"KeysBetween": func() error { return drain(x.m.KeysBetween("a", "c")) },
			"Backward":    func() error { return drain2(x.m.Backward().All()) },
			"Raw.From":    func() error { return drain2(x.raw.From(nil)) },
			"Raw.Prefix":  func() error { return drain2(x.raw.Prefix(nil)) },
			"Raw.Keys":    func() error { return drain(x.raw.Keys()) },
			"Maps":        func() error { return drain2(db.Maps()) },
			"Snapshot":    func() error { _, err := db.Snapshot(); return err },
			"Update":      func() error { return db.Update(func(*copal.Tx) error { return nil }) },
			"View":        func() error { return db.View(func(*copal.Tx) error { return nil }) },
			"Drop":        func() error { return db.Drop("m") },
			"Map.Watch":   func() error { return first(x.m.Watch(context.Background())) },
			"DB.Watch":    func() error { return first(db.Watch(context.Background())) },
			"History":     func() error { return first(x.m.History("a")) },
			"SetInMemory": func() error { return x.m.SetInMemory("a", 1) },
			"Backup":      func() error { _, err := db.Backup(t.Context(), t.TempDir(), nil); return err },
			"Compact":     func() error { return db.Compact(t.Context(), nil) },
			"OpenMap":     func() error { _, err := copal.OpenMap[string, int](db, "n", copal.Ordered()); return err },
			"AsOfSeq":     func() error { _, err := db.AsOfSeq(1); return err },
			"WithOnExpire": func() error {
				_, err := copal.OpenMap[string, int](db, "n", copal.WithOnExpire(func(string, int) {}))
				return err
			},
		} {
			err := do()
			said := reported()
			if errors.Is(err, errors.ErrUnsupported) == (len(said) == 1 && errors.Is(said[0], errors.ErrUnsupported)) {
				t.Errorf("%s returns %v, and the handler gets %q", name, err, said)
			}
		}
	})
}

func first[A any](seq func(func(A, error) bool)) (err error) {
	seq(func(_ A, e error) bool { err = e; return false })
	return err
}
