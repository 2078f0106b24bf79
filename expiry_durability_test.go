package copal_test

import (
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// A deadline that is there already only for memory is made as durable as the call that wants it.
func TestExpiryAsDurableAsAsked(t *testing.T) {
	for name, change := range map[string]func(m *copal.Map[string, int]) error{
		"PersistAsync, Persist": func(m *copal.Map[string, int]) error {
			if err := m.With(copal.Async).Persist("k"); err != nil {
				return err
			}
			return m.Persist("k")
		},
		"ExpireAsync, Expire": func(m *copal.Map[string, int]) error {
			if err := m.With(copal.Async).Expire("k", time.Hour); err != nil {
				return err
			}
			return m.Expire("k", time.Hour)
		},
		"SetAsync, Persist": func(m *copal.Map[string, int]) error {
			if err := m.SetAsync("k", 1); err != nil {
				return err
			}
			return m.Persist("k")
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem, clock := vfs.NewMem(), newManualClock()
			db := openOn(t, mem, copal.WithClock(clock))
			m := mapOf[string, int](t, db, "m")
			if err := m.SetTTL("k", 1, time.Second); err != nil {
				t.Fatal(err)
			}
			if err := change(m); err != nil {
				t.Fatal(err)
			}
			db = openOn(t, mem.ProcessCrash(), copal.WithClock(clock))
			clock.Advance(time.Minute)
			wantLoad(t, mapOf[string, int](t, db, "m"), "k", 1)
		})
	}
}
