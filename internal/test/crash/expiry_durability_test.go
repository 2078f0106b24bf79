package crash

import (
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

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
			mem, clock := vfs.NewMem(), kit.NewManualClock()
			db := kit.OpenOn(t, mem, kit.WithClock(clock))
			m := kit.MapOf[string, int](t, db, "m")
			if err := m.SetTTL("k", 1, time.Second); err != nil {
				t.Fatal(err)
			}
			if err := change(m); err != nil {
				t.Fatal(err)
			}
			db = kit.OpenOn(t, mem.ProcessCrash(), kit.WithClock(clock))
			clock.Advance(time.Minute)
			kit.WantLoad(t, kit.MapOf[string, int](t, db, "m"), "k", 1)
		})
	}
}
