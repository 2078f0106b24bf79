package expiry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// toldExpired returns the keys whose expiry is in the log, with the deadlines.
func toldExpired(t *testing.T, db *copal.DB) (list []string) {
	t.Helper()
	s := kit.MustSnapshot(t, db)
	defer s.Close()
	for c, err := range db.Watch(context.Background(), copal.WithAfter(0), copal.WithUntil(s.Seq())) {
		kit.Must(t, err)
		if c.Expired {
			list = append(list, fmt.Sprintf("%s %d", c.Key, c.Deadline.UnixMilli()%1000))
		}
	}
	slices.Sort(list)
	return list
}

// TestTellExpiryIsOfRawKeys: Raw.TellExpiry is of raw keys outside all maps. A map that the log
// knows, or learns of by its first write, has expiry changes only if it was opened with
// ExpiryEvents itself, or the store was.
func TestTellExpiryIsOfRawKeys(t *testing.T) {
	const soon = 5 * time.Millisecond
	for _, c := range []struct {
		name string
		open []copal.Option
		m    []copal.MapOption
		raw  bool // TellExpiry
		want []string
	}{
		{"nobody asks", nil, nil, false, nil},
		{"raw keys", nil, nil, true, []string{"early 5", "raw 5"}},
		{"the map", nil, []copal.MapOption{copal.ExpiryEvents()}, false, []string{"m:a 5", "m:k 5"}},
		{"both", nil, []copal.MapOption{copal.ExpiryEvents()}, true, []string{"early 5", "m:a 5", "m:k 5", "raw 5"}},
		{"the store", []copal.Option{copal.ExpiryEvents()}, nil, false, []string{"early 5", "m:a 5", "m:k 5", "raw 5"}},
	} {
		for _, opened := range []string{"before", "after", "raw writes come first"} {
			t.Run(c.name+", the map opened "+opened, func(t *testing.T) {
				clock, fsys := kit.NewManualClock(), vfs.NewMem()
				opts := append([]copal.Option{kit.WithClock(clock)}, c.open...)
				db := kit.OpenOn(t, fsys, opts...)
				raw := db.Raw()
				var m *copal.Map[string, int]
				if opened == "before" {
					m = kit.MapOf[string, int](t, db, "m", c.m...)
				}
				if c.raw {
					kit.Must(t, raw.TellExpiry())
				}
				kit.Must(t, raw.SetTTL([]byte("early"), nil, soon))
				if opened == "raw writes come first" { // and are the map's from then on
					kit.Must(t, raw.SetTTL([]byte("m:a"), []byte("1"), soon))
				}
				if m == nil {
					m = kit.MapOf[string, int](t, db, "m", c.m...)
				}
				kit.Must(t, m.SetTTL("k", 1, soon))
				kit.Must(t, m.SetTTL("a", 1, soon))
				kit.Must(t, raw.SetTTL([]byte("raw"), nil, soon))
				crashed := fsys.ProcessCrash()
				clock.Advance(soon)
				for _, db := range []*copal.DB{db, kit.OpenOn(t, crashed, append(opts[:1:1], kit.WithInline())...)} {
					m := kit.MapOf[string, int](t, db, "m")
					kit.Must(t, m.Set("k", 2))
					kit.Must(t, m.Set("a", 2))
					for _, key := range []string{"raw", "early"} {
						kit.Must(t, db.Raw().Set([]byte(key), nil))
					}
					if got := toldExpired(t, db); !slices.Equal(got, c.want) {
						t.Errorf("told of %q, want %q", got, c.want)
					}
					kit.Must(t, m.SetTTL("k", 1, time.Hour)) // the map keeps its options
					kit.MustClose(t, m)
				}
			})
		}
	}
}

// TestRawKeysOfNoMapYet: keys that begin as those of a map would are raw keys as long as the log
// knows no such map.
func TestRawKeysOfNoMapYet(t *testing.T) {
	clock := kit.NewManualClock()
	db := kit.Memory(t, kit.WithClock(clock))
	kit.Must(t, db.Raw().TellExpiry())
	kit.Must(t, db.Raw().SetTTL([]byte("m:a"), []byte("1"), 5*time.Millisecond))
	kit.MapOf[string, int](t, db, "m") // is opened, and not written to
	clock.Advance(5 * time.Millisecond)
	kit.Must(t, db.Raw().Set([]byte("m:a"), []byte("2")))
	if got := toldExpired(t, db); !slices.Equal(got, []string{"m:a 5"}) {
		t.Errorf("told of %q", got)
	}
}

// TestSetAsyncThatExpires: there is no change for an asynchronous write that expired before the log
// had it, unless it replaced an entry that the log has. That one ends, by the deadline of the
// other.
func TestSetAsyncThatExpires(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(m *copal.Map[string, int]) error
		want []string
	}{
		{"a new entry", func(m *copal.Map[string, int]) error { return nil }, nil},
		{"over an entry for ever", func(m *copal.Map[string, int]) error { return m.Set("k", 1) }, []string{"m:k 7"}},
		{"over an entry with a later deadline", func(m *copal.Map[string, int]) error { return m.SetTTL("k", 1, time.Hour) }, []string{"m:k 7"}},
		{"over an entry that was deleted", func(m *copal.Map[string, int]) error {
			m.Set("k", 1)
			_, err := m.Delete("k")
			return err
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := kit.NewManualClock()
			db := kit.Memory(t, kit.WithClock(clock), kit.WithInline(), copal.WithMaxMemory(1<<20)) // or the log has them at once
			m := kit.MapOf[string, int](t, db, "m", copal.ExpiryEvents())
			kit.Must(t, m.Set("other", 1))
			kit.Must(t, c.do(m))
			kit.Must(t, m.With(copal.Async).SetTTL("k", 2, 7*time.Millisecond))
			clock.Advance(7 * time.Millisecond)
			if n := m.Len(); n != 1 {
				t.Errorf("Len is %d", n)
			}
			kit.Must(t, db.Sync())
			if got := toldExpired(t, db); !slices.Equal(got, c.want) {
				t.Errorf("told of %q, want %q", got, c.want)
			}
		})
	}
}

// TestHistoryHasWhatWas: without a window, beside compaction and snapshots of the index, each
// version that History yields is one that there was.
func TestHistoryHasWhatWas(t *testing.T) { kit.EachSeed(t, 30, 2000, historyHasWhatWas) }

func historyHasWhatWas(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 37))
	clock, fsys := kit.NewManualClock(), vfs.NewMem()
	opts := []copal.Option{kit.WithClock(clock), kit.WithSegmentBytes(600), kit.WithLogPerIndex(1), kit.WithInline()}
	db := kit.OpenOn(t, fsys, opts...)
	type was struct {
		value    string
		deadline int64
	}
	versions := map[string]map[uint64]was{}
	const keys = 6
	note := func(key, value string, deadline int64) {
		s := kit.MustSnapshot(t, db)
		defer s.Close()
		if versions[key] == nil {
			versions[key] = map[uint64]was{}
		}
		versions[key][s.Seq()] = was{value, deadline}
	}
	look := func() {
		for n := range keys {
			key := fmt.Sprint("k", n)
			next := clock.Now()
			for v, err := range db.Raw().History([]byte(key)) {
				if err != nil {
					break // lost, and said to be
				}
				w, is := versions[key][v.Seq]
				got := was{string(v.Value), 0}
				if !v.Deadline.IsZero() {
					got.deadline = v.Deadline.UnixMilli()
				}
				if v.Deleted != (w.value == "") || !is || got != w {
					t.Fatalf("%s: version %d is %+v, and there was %+v", key, v.Seq, v, w)
				}
				if v.Expired && v.Deadline.After(next) {
					t.Fatalf("%s: %+v has not expired by %v", key, v, next)
				}
				next = v.Time
			}
		}
	}
	for i := range 120 {
		key := fmt.Sprint("k", rng.IntN(keys))
		raw, value := db.Raw(), fmt.Sprint("v", i)
		switch rng.IntN(12) {
		case 0, 1, 2, 3:
			kit.Must(t, raw.Set([]byte(key), []byte(value)))
			note(key, value, 0)
		case 4, 5, 6:
			d := time.Duration(1+rng.IntN(40)) * time.Millisecond
			at := clock.Now().Add(d).UnixMilli()
			kit.Must(t, raw.SetTTL([]byte(key), []byte(value), d))
			note(key, value, at)
		case 7, 8:
			existed, err := raw.Delete([]byte(key))
			kit.Must(t, err)
			if existed {
				note(key, "", 0)
			}
		case 9:
			clock.Advance(time.Duration(rng.IntN(20)) * time.Millisecond)
		case 10:
			kit.Must(t, db.Compact(t.Context(), nil))
		case 11:
			kit.MustClose(t, db)
			db = kit.OpenOn(t, fsys, opts...)
		}
		if i%7 == 0 {
			look()
		}
	}
	look()
	kit.MustClose(t, db)
}
