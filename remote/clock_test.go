package remote

import (
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/opened"
)

// wrong are clocks of this machine that differ from the server's.
func wrong(t *testing.T, by time.Duration) copal.Option {
	t.Helper()
	clock := logtest.NewClockAt(time.Now().Add(by))
	return opened.Seam(func(o *engine.Options) { o.Clock = clock }).(copal.Option)
}

// TestDeadlinesByTheServer: a time to live begins and ends by the clock of the server, whatever the one of the client
// shows, and a TTL that is read is the time that is left there.
func TestDeadlinesByTheServer(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		address := at.start(t)
		for _, by := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
			db, err := copal.OpenDriven(at.driverOf(t, address), copal.WithErrorHandler(onError(t)), wrong(t, by))
			if err != nil {
				t.Fatal(err)
			}
			const ttl = time.Hour
			m, err := copal.OpenMap[string, int](db, "m", copal.WithTTL(ttl))
			if err != nil {
				t.Fatal(err)
			}
			left := map[string]func(key string) (time.Duration, error){}
			ofMap := func(do func(key string) error) func(string) (time.Duration, error) {
				return func(key string) (time.Duration, error) {
					if err := do(key); err != nil {
						return 0, err
					}
					if n, err := m.Load(key); n != 1 || err != nil {
						t.Errorf("%s, a clock that is off by %v: %d, %v", key, by, n, err)
					}
					return m.TTL(key)
				}
			}
			left["Set"] = ofMap(func(key string) error { return m.Set(key, 1) })
			left["SetTTL"] = ofMap(func(key string) error { return m.SetTTL(key, 1, ttl) })
			left["SetUntil"] = ofMap(func(key string) error { return m.SetUntil(key, 1, time.Now().Add(ttl)) })
			left["Update"] = ofMap(func(key string) error {
				_, _, err := m.Update(key, func(e *copal.Entry[int]) error { e.Value = 1; return nil })
				return err
			})
			left["Update of a TTL"] = ofMap(func(key string) error {
				if err := m.SetTTL(key, 0, ttl/2); err != nil {
					return err
				}
				_, _, err := m.Update(key, func(e *copal.Entry[int]) error { e.Value, e.TTL = 1, e.TTL+ttl/2; return nil })
				return err
			})
			left["Expire"] = ofMap(func(key string) error {
				if err := m.SetTTL(key, 1, ttl/2); err != nil {
					return err
				}
				return m.Expire(key, ttl)
			})
			left["ExpireAt"] = ofMap(func(key string) error {
				if err := m.Set(key, 1); err != nil {
					return err
				}
				return m.ExpireAt(key, time.Now().Add(ttl))
			})
			left["Raw.SetTTL"] = func(key string) (time.Duration, error) {
				if err := db.Raw().SetTTL([]byte(key), nil, ttl); err != nil {
					return 0, err
				}
				return db.Raw().TTL([]byte(key))
			}
			left["Batch.SetTTL"] = func(key string) (time.Duration, error) {
				b := db.Raw().Batch()
				if err := b.SetTTL([]byte(key), nil, ttl); err != nil {
					return 0, err
				}
				if err := b.Commit(); err != nil {
					return 0, err
				}
				return db.Raw().TTL([]byte(key))
			}
			left["Hash.Expire"] = func(key string) (time.Duration, error) {
				h := db.Raw().Hash([]byte(key))
				if err := h.Set("f", nil); err != nil {
					return 0, err
				}
				if err := h.Expire(ttl); err != nil {
					return 0, err
				}
				return h.TTL()
			}
			for verb, of := range left {
				if left, err := of(verb); err != nil || left > ttl+time.Second || left < ttl/2+ttl/4 {
					t.Errorf("%s, a clock that is off by %v: %v left, %v", verb, by, left, err)
				}
			}
			if err := m.SetUntil("past", 1, time.Now().Add(-time.Minute)); err == nil {
				t.Errorf("a clock that is off by %v: a deadline that has passed was taken", by)
			}
		}
	})
}

// TestClockIsAskedAgain: an answer about the server's clock is used for a while.
func TestClockIsAskedAgain(t *testing.T) {
	var c clock
	if _, ok := c.now(); ok || time.Since(c.estimate()) > time.Hour {
		t.Error("there is an answer before the first one")
	}
	server := time.Unix(1e9, 0)
	c.set(server, time.Now())
	if now, ok := c.now(); !ok || now.Before(server) || now.Sub(server) > time.Hour {
		t.Errorf("the time is %v, %v", now, ok)
	}
	c.set(server, time.Now().Add(-clockAge))
	if now, ok := c.now(); ok || now.Before(server.Add(clockAge)) || c.estimate().Before(now) {
		t.Errorf("after a while the time is %v, %v", now, ok)
	}
}
