package expiry

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// The entry of these tests: its map, its key, and its time to live.
const (
	expiring    = "expiring"
	expiringKey = expiring + ":k"
	lifetime    = 1234 * time.Millisecond
)

// expiryWay gives the entry k of a map a deadline.
type expiryWay[V any] struct {
	name string
	opts []copal.MapOption
	do   func(t *testing.T, db *copal.DB, m *copal.Map[string, V], v V) error
	cell bool // the log does not have the deadline
}

func expiryWays[V any]() []expiryWay[V] {
	type M = *copal.Map[string, V]
	ttl := []copal.MapOption{copal.WithTTL(lifetime)}
	setting := func(name string, opts []copal.MapOption, set func(m M, v V) error) expiryWay[V] {
		return expiryWay[V]{name: name, opts: opts, cell: strings.HasSuffix(name, "Async"), do: func(t *testing.T, db *copal.DB, m M, v V) error { return set(m, v) }}
	}
	after := func(name string, change func(m M) error) expiryWay[V] {
		return setting(name, nil, func(m M, v V) error {
			if err := m.Set("k", v); err != nil {
				return err
			}
			return change(m)
		})
	}
	return []expiryWay[V]{
		setting("SetTTL", nil, func(m M, v V) error { return m.SetTTL("k", v, lifetime) }),
		setting("SetTTLFSync", nil, func(m M, v V) error { return m.With(copal.FSync).SetTTL("k", v, lifetime) }),
		setting("SetTTLAsync", nil, func(m M, v V) error { return m.With(copal.Async).SetTTL("k", v, lifetime) }),
		setting("Set in a map with a TTL", ttl, func(m M, v V) error { return m.Set("k", v) }),
		setting("a map with a TTL, SetAsync", ttl, func(m M, v V) error { return m.SetAsync("k", v) }),
		setting("Update that makes an entry", ttl, func(m M, v V) error {
			_, _, err := m.Update("k", func(u *copal.Entry[V]) error { u.Value = v; return nil })
			return err
		}),
		after("SetTTLAsync over an entry, SetTTLAsync", func(m M) error { v, _ := m.Get("k"); return m.With(copal.Async).SetTTL("k", v, lifetime) }),
		after("Expire", func(m M) error { return m.Expire("k", lifetime) }),
		after("Get and Expire", func(m M) error { m.Get("k"); return m.Expire("k", lifetime) }),
		after("ExpireFSync", func(m M) error { return m.With(copal.FSync).Expire("k", lifetime) }),
		after("ExpireAsync", func(m M) error { return m.With(copal.Async).Expire("k", lifetime) }),
		after("Expire to less", func(m M) error {
			if err := m.Expire("k", time.Hour); err != nil {
				return err
			}
			return m.Expire("k", lifetime)
		}),
		after("Expire to more", func(m M) error {
			if err := m.Expire("k", time.Millisecond); err != nil {
				return err
			}
			return m.Expire("k", lifetime)
		}),
		after("Update with a TTL", func(m M) error {
			_, _, err := m.Update("k", func(u *copal.Entry[V]) error { u.TTL = lifetime; return nil })
			return err
		}),
		after("Update without", func(m M) error {
			if err := m.Expire("k", lifetime); err != nil {
				return err
			}
			_, _, err := m.Update("k", func(u *copal.Entry[V]) error { return nil })
			return err
		}),
		after("UpdateAsync without", func(m M) error {
			if err := m.Expire("k", lifetime); err != nil {
				return err
			}
			_, _, err := m.UpdateAsync("k", func(u *copal.Entry[V]) error { return nil })
			return err
		}),
		after("SetInMemory over it", func(m M) error {
			if err := m.Expire("k", lifetime); err != nil {
				return err
			}
			v, _ := m.Get("k")
			return m.SetInMemory("k", v)
		}),
		after("Expire under SetInMemory", func(m M) error {
			v, _ := m.Get("k")
			if err := m.SetInMemory("k", v); err != nil {
				return err
			}
			return m.Expire("k", lifetime)
		}),
		{name: "PutTTL", do: func(t *testing.T, db *copal.DB, m M, v V) error {
			if err := m.Set("k", v); err != nil {
				return err
			}
			value, err := json.Marshal(v)
			if err != nil {
				return err
			}
			return db.Raw().SetTTL([]byte(expiringKey), value, lifetime)
		}},
		{name: "raw Expire", do: func(t *testing.T, db *copal.DB, m M, v V) error {
			if err := m.Set("k", v); err != nil {
				return err
			}
			return db.Raw().Expire([]byte(expiringKey), lifetime)
		}},
		{name: "evicted", do: func(t *testing.T, db *copal.DB, m M, v V) error {
			if err := m.SetTTL("k", v, lifetime); err != nil {
				return err
			}
			return m.Close()
		}},
	}
}

// expirySights returns the ways to see the entry: each reports whether it is there.
func expirySights[V any]() map[string]func(t *testing.T, db *copal.DB, m *copal.Map[string, V]) bool {
	type M = *copal.Map[string, V]
	unless := func(t *testing.T, err error) bool {
		if err != nil && !errors.Is(err, copal.ErrNotFound) {
			t.Error(err)
		}
		return err == nil
	}
	key := []byte(expiringKey)
	return map[string]func(t *testing.T, db *copal.DB, m M) bool{
		"Get":  func(t *testing.T, db *copal.DB, m M) bool { _, ok := m.Get("k"); return ok },
		"Load": func(t *testing.T, db *copal.DB, m M) bool { _, err := m.Load("k"); return unless(t, err) },
		"TTL":  func(t *testing.T, db *copal.DB, m M) bool { _, err := m.TTL("k"); return unless(t, err) },
		"Len":  func(t *testing.T, db *copal.DB, m M) bool { return m.Len() == 1 },
		"All": func(t *testing.T, db *copal.DB, m M) (there bool) {
			for range m.All() {
				there = true
			}
			return there
		},
		"Keys":   func(t *testing.T, db *copal.DB, m M) bool { return len(slices.Collect(m.Keys())) == 1 },
		"Values": func(t *testing.T, db *copal.DB, m M) bool { return len(slices.Collect(m.Values())) == 1 },
		"Range": func(t *testing.T, db *copal.DB, m M) (there bool) {
			m.Range(func(string, V) error { there = true; return nil })
			return there
		},
		"Stats": func(t *testing.T, db *copal.DB, m M) bool { return db.Stats().Keys == 1 },
		"Maps": func(t *testing.T, db *copal.DB, m M) bool {
			return slices.Collect(maps.Values(maps.Collect(db.Maps())))[0] == 1
		},

		"raw Get": func(t *testing.T, db *copal.DB, m M) bool { _, err := db.Raw().Load(key); return unless(t, err) },
		"Has": func(t *testing.T, db *copal.DB, m M) bool {
			has, err := kit.Has(db.Raw(), key)
			return has && unless(t, err)
		},
		"raw TTL":  func(t *testing.T, db *copal.DB, m M) bool { _, err := db.Raw().TTL(key); return unless(t, err) },
		"Scan":     func(t *testing.T, db *copal.DB, m M) bool { return len(kit.ScanAll(db)) == 1 },
		"ScanKeys": func(t *testing.T, db *copal.DB, m M) bool { return len(slices.Collect(db.Raw().Keys())) == 1 },

		"Update, which writes": func(t *testing.T, db *copal.DB, m M) (there bool) {
			_, _, err := m.Update("k", func(u *copal.Entry[V]) error { there = u.Exists; u.Cancel(); return nil })
			return unless(t, err) && there
		},
		"Delete, which writes": func(t *testing.T, db *copal.DB, m M) bool {
			existed, err := m.Delete("k")
			return unless(t, err) && existed
		},
		"DeleteAsync, which writes": func(t *testing.T, db *copal.DB, m M) bool {
			existed, err := m.DeleteAsync("k")
			return unless(t, err) && existed
		},
		"raw Delete, which writes": func(t *testing.T, db *copal.DB, m M) bool {
			existed, err := db.Raw().Delete(key)
			return unless(t, err) && existed
		},
		"Expire, which writes": func(t *testing.T, db *copal.DB, m M) bool { return unless(t, m.Expire("k", time.Hour)) },
		"Persist, which writes": func(t *testing.T, db *copal.DB, m M) bool {
			return unless(t, m.Persist("k"))
		},
		"PersistAsync, which writes": func(t *testing.T, db *copal.DB, m M) bool { return unless(t, m.With(copal.Async).Persist("k")) },
		"raw Persist, which writes":  func(t *testing.T, db *copal.DB, m M) bool { return unless(t, db.Raw().Persist(key)) },
	}
}

// An entry with a deadline, however given, is there a millisecond before it and absent at it, for
// the first reader of each kind, in each life of the store.
func TestExpiryToTheMillisecond(t *testing.T) {
	t.Run("flat, binary", func(t *testing.T) {
		expiryTable(t, 1, kit.User{Name: "Alice", Age: 28}, copal.WithCodec(codec.Binary))
	})
	t.Run("slices", func(t *testing.T) { expiryTable(t, 1, []string{"a", "b"}) })
	if !testing.Short() {
		t.Run("flat, JSON", func(t *testing.T) { expiryTable(t, 5, kit.User{Name: "Alice", Age: 28}) })
		t.Run("large", func(t *testing.T) { expiryTable(t, 5, kit.Pattern(9<<17), copal.WithCodec(codec.Bytes)) })
	}
}

// expiryTable tries each way with each sight, in one life of the store. It takes one such pair of
// so many, or all of them in each life if tests may be long.
func expiryTable[V any](t *testing.T, every int, v V, opts ...copal.MapOption) {
	lives := []string{"here", "after the death of the process", "after a clean end", "read-only"}
	n := 0
	for _, way := range expiryWays[V]() {
		for sight, see := range expirySights[V]() {
			for i, life := range lives {
				if i == 0 {
					n++
				}
				if (n%len(lives) != i || n%every != 0) && !kit.Long() { // the sights come in another order each time
					continue
				}
				if life == lives[1] && way.cell || life == "read-only" && strings.HasSuffix(sight, "writes") {
					continue
				}
				for _, there := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s, %s, %s, %v", way.name, life, sight, there), func(t *testing.T) { // the store goes with it
						x := expiryCase[V]{T: t, clock: kit.NewManualClock(), mem: vfs.NewMem(), opts: slices.Concat(opts, way.opts)}
						x.open()
						if err := way.do(t, x.db, x.m, v); err != nil {
							t.Fatal(err)
						}
						x.live(life)
						x.clock.Advance(lifetime - time.Millisecond)
						if !there {
							x.clock.Advance(time.Millisecond)
						}
						if see(t, x.db, x.m) != there {
							t.Errorf("there is an entry: %v", !there)
						}
						if n := x.m.Len(); !there && n != 0 || x.m.Len() != int(x.db.Stats().Keys) {
							t.Errorf("then Len = %d, and Stats %d", n, x.db.Stats().Keys)
						}
						kit.MustClose(t, x.db)
					})
				}
			}
		}
	}
}

// expiryCase is one store of the table.
type expiryCase[V any] struct {
	*testing.T
	clock *kit.ManualClock
	mem   *vfs.Mem
	opts  []copal.MapOption
	db    *copal.DB
	m     *copal.Map[string, V]
}

func (x *expiryCase[V]) open(opts ...copal.Option) {
	x.db = kit.OpenOn(x.T, x.mem, append(opts, kit.WithInline(), kit.WithoutRing(), kit.WithClock(x.clock))...)
	x.m = kit.MapOf[string, V](x.T, x.db, expiring, x.opts...)
}

// live begins another life of the store, and opens the map if it was closed.
func (x *expiryCase[V]) live(life string) {
	switch life {
	case "here":
		x.m = kit.MapOf[string, V](x.T, x.db, expiring, x.opts...)
	case "after the death of the process":
		x.mem = x.mem.ProcessCrash()
		x.open()
	case "after a clean end":
		kit.MustClose(x.T, x.db)
		x.open()
	case "read-only":
		kit.MustClose(x.T, x.db)
		x.open(copal.ReadOnly())
	}
}

// expired collects the arguments of OnExpire.
type expired struct {
	mu   sync.Mutex
	list []string
}

func (x *expired) note(key string, v []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, key+strings.Join(v, ""))
}

func (x *expired) sorted() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(slices.Values(x.list))
}

// OnExpire is called once for each entry that expires, with its value, by the first call that meets
// it, and for no other.
func TestOnExpire(t *testing.T) {
	clock := kit.NewManualClock()
	db := kit.Memory(t, kit.WithClock(clock))
	var got expired
	m := kit.MapOf[string, []string](t, db, "m", copal.WithOnExpire(got.note))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(m.SetTTL("logged", []string{"1"}, time.Second))
	must(m.With(copal.Async).SetTTL("dirty", []string{"2"}, time.Second))
	must(m.SetTTL("large", []string{strings.Repeat("3", 3<<20)}, time.Second))
	must(m.SetTTL("read", []string{"4"}, time.Second))
	m.Get("read")
	must(m.SetTTL("overwritten", []string{"no"}, time.Second))
	must(m.Set("overwritten", []string{"5"}))
	must(m.SetTTL("deleted", []string{"no"}, time.Second))
	_, err := m.Delete("deleted")
	must(err)
	must(m.SetTTL("put off", []string{"6"}, time.Second))
	must(m.Expire("put off", time.Hour))
	must(m.SetTTL("met", []string{"7"}, time.Second))
	must(m.SetTTL("hidden", []string{"8"}, time.Second))
	must(m.SetInMemory("hidden", []string{"9"}))
	must(db.Raw().SetTTL([]byte("raw"), nil, time.Second))
	clock.Advance(time.Second)
	must(m.Set("met", []string{"new"})) // the one before has expired
	want := []string{"dirty2", "hidden9", "large" + strings.Repeat("3", 3<<20), "logged1", "met7", "read4"}
	for !slices.Equal(got.sorted(), want) {
		if len(got.sorted()) > len(want) {
			t.Fatalf("OnExpire was called with %.200q", got.sorted())
		}
		runtime.Gosched()
	}
	if n := m.Len(); n != 3 {
		t.Errorf("Len = %d, want 3", n)
	}
	must(m.Close())
	clock.Advance(time.Hour) // "put off" expires while the map is not open
	if n := db.Stats().Keys; n != 2 {
		t.Errorf("%d keys, want 2", n)
	}
	must(db.Close())
	if !slices.Equal(got.sorted(), want) {
		t.Errorf("OnExpire was called with %.200q at the end", got.sorted())
	}
}

// The function of OnExpire may use the store, and Close waits for it.
func TestOnExpireUsesTheStore(t *testing.T) {
	clock := kit.NewManualClock()
	db := kit.Memory(t, kit.WithClock(clock))
	var m *copal.Map[string, int]
	rounds, enough := 0, make(chan bool)
	m = kit.MapOf[string, int](t, db, "m", copal.WithOnExpire(func(key string, v int) {
		if rounds++; rounds == 5 {
			close(enough)
			return
		}
		if err := m.SetTTL(key, v+1, time.Millisecond); err != nil || m.Len() > 1 { // it may have expired again
			t.Errorf("SetTTL: %v, Len %d", err, m.Len())
		}
	}))
	if err := m.SetTTL("k", 1, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		select {
		case <-enough:
			done = true
		default:
			clock.Advance(time.Millisecond)
			runtime.Gosched()
		}
	}
	kit.MustClose(t, db)
	if rounds != 5 {
		t.Errorf("%d rounds", rounds)
	}
}

// An entry that expires while the function of OnExpire runs is passed to it, once, whoever removes
// it: also the function itself, after which the goroutine that calls it finds nothing else to do.
func TestExpiredWhileAnotherIsTold(t *testing.T) {
	key := []byte("m:second")
	for name, use := range map[string]func(db *copal.DB, m *copal.Map[string, int]) error{
		"nothing": func(*copal.DB, *copal.Map[string, int]) error { return nil },
		"Len":     func(_ *copal.DB, m *copal.Map[string, int]) error { m.Len(); return nil },
		"DB.Len":  func(db *copal.DB, _ *copal.Map[string, int]) error { db.Raw().Len(); return nil },
		"Get":     func(_ *copal.DB, m *copal.Map[string, int]) error { m.Get("second"); return nil },
		"All": func(_ *copal.DB, m *copal.Map[string, int]) error {
			for range m.All() {
				break
			}
			return nil
		},
		"Set":      func(_ *copal.DB, m *copal.Map[string, int]) error { return m.Set("second", 3) },
		"SetAsync": func(_ *copal.DB, m *copal.Map[string, int]) error { return m.SetAsync("second", 3) },
		"Delete":   func(_ *copal.DB, m *copal.Map[string, int]) error { _, err := m.Delete("second"); return err },
		"Update": func(_ *copal.DB, m *copal.Map[string, int]) error {
			_, _, err := m.Update("second", func(u *copal.Entry[int]) error { u.Cancel(); return nil })
			return err
		},
		"Put":        func(db *copal.DB, _ *copal.Map[string, int]) error { return db.Raw().Set(key, []byte("3")) },
		"raw Delete": func(db *copal.DB, _ *copal.Map[string, int]) error { _, err := db.Raw().Delete(key); return err },
		"transaction": func(db *copal.DB, m *copal.Map[string, int]) error {
			return db.Update(func(tx *copal.Tx) error { return m.In(tx).Set("second", 3) })
		},
		"Snapshot": func(db *copal.DB, _ *copal.Map[string, int]) error {
			s, err := db.Snapshot()
			if err == nil {
				err = s.Close()
			}
			return err
		},
	} {
		for _, set := range []string{"SetTTL", "SetTTLAsync"} {
			t.Run(name+" after "+set, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db := kit.Memory(t, copal.WithSyncInterval(time.Hour))
					var m *copal.Map[string, int]
					var told []string
					m = kit.MapOf[string, int](t, db, "m", copal.WithOnExpire(func(key string, _ int) {
						if told = append(told, key); key == "first" {
							time.Sleep(time.Second)
							if err := use(db, m); err != nil {
								t.Error(err)
							}
						}
					}))
					do := m.SetTTL
					if set == "SetTTLAsync" {
						do = m.With(copal.Async).SetTTL
					}
					if err := errors.Join(do("first", 1, time.Second), do("second", 2, 2*time.Second)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					if !slices.Equal(told, []string{"first", "second"}) {
						t.Errorf("told of %q", told)
					}
					kit.MustClose(t, db)
				})
			})
		}
	}
}

// Entries that expire one after the other, each of which the function of OnExpire removes in the
// call for the previous one, are all passed to it: however many there are, so that the last one is
// removed at each step of the goroutine, the one before its end included.
func TestExpiredOneByOneWhileTheyAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := kit.Memory(t, copal.WithSyncInterval(time.Hour))
		var m *copal.Map[int, int]
		var told []int
		m = kit.MapOf[int, int](t, db, "m", copal.WithOnExpire(func(key, _ int) {
			told = append(told, key)
			time.Sleep(time.Second)
			m.Len()
		}))
		for n := range 300 { // there are 256 steps
			told = nil
			for i := range n {
				if err := m.SetTTL(i, i, time.Duration(1+i)*time.Second); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if len(told) != n || !slices.IsSorted(told) {
				t.Fatalf("of %d entries %d are told: %v", n, len(told), told)
			}
		}
		kit.MustClose(t, db)
	})
}

// Deadlines without sense are refused, and change nothing.
func TestExpiryRefusals(t *testing.T) {
	db := kit.Memory(t)
	if _, err := copal.OpenMap[string, int](db, "m", copal.WithOnExpire(func(string, string) {})); !errors.Is(err, copal.ErrType) {
		t.Errorf("OnExpire of other types: %v", err)
	}
	if _, err := copal.OpenMap[string, int](db, "m", copal.WithTTL(-1)); err == nil {
		t.Error("a negative WithTTL is taken")
	}
	if _, err := copal.OpenMemory(copal.WithTTL(-1)); err == nil {
		t.Error("a negative WithTTL is taken by Open")
	}
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "k", 1)
	for name, err := range map[string]error{
		"SetTTL":      m.SetTTL("k", 2, 0),
		"SetTTLFSync": m.With(copal.FSync).SetTTL("k", 2, -time.Second),
		"SetTTLAsync": m.With(copal.Async).SetTTL("k", 2, 0),
		"Expire":      m.Expire("k", 0),
		"PutTTL":      db.Raw().SetTTL([]byte("m:k"), []byte("2"), 0),
		"raw Expire":  db.Raw().Expire([]byte("m:k"), -1),
		"Update": func() error {
			_, _, err := m.Update("k", func(u *copal.Entry[int]) error { u.Value, u.TTL = 2, -1; return nil })
			return err
		}(),
		"UpdateInMemory": func() error {
			_, _, err := m.UpdateInMemory("k", func(u *copal.Entry[int]) error { u.Value, u.TTL = 2, time.Hour; return nil })
			return err
		}(),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	kit.WantLoad(t, m, "k", 1)
	if ttl, err := m.TTL("k"); ttl != 0 || err != nil {
		t.Errorf("TTL = %v, %v", ttl, err)
	}
}

// lastDeadline is the last moment, to the second, that a deadline can be.
var lastDeadline = time.Unix(math.MaxInt64/1000-1, 0)

// A deadline that milliseconds since 1970 cannot say is refused by every verb that takes one, and
// changes nothing: it is neither the past nor never.
func TestFarDeadlinesAreRefused(t *testing.T) {
	key := []byte("k")
	for _, at := range []time.Time{
		lastDeadline.Add(time.Second), time.Unix(1<<54, 0), time.Unix(1<<55, 0),
		time.Unix(1<<60, 999_999_999), time.Unix(1<<62, 0), time.Unix(math.MaxInt64, 0),
	} {
		for name, f := range map[string]func(db *copal.DB, h *copal.HashOf[string, int]) error{
			"PutUntil": func(db *copal.DB, _ *copal.HashOf[string, int]) error {
				return db.Raw().SetUntil(key, []byte("new"), at)
			},
			"ExpireAt": func(db *copal.DB, _ *copal.HashOf[string, int]) error { return db.Raw().ExpireAt(key, at) },
			"ExpireAt of a collection": func(db *copal.DB, h *copal.HashOf[string, int]) error {
				return db.Raw().ExpireAt([]byte(h.Name()), at)
			},
			"Batch.PutUntil": func(db *copal.DB, _ *copal.HashOf[string, int]) error {
				return db.Raw().Batch().SetUntil(key, []byte("new"), at)
			},
			"Tx.PutUntil": func(db *copal.DB, _ *copal.HashOf[string, int]) error {
				return db.Update(func(tx *copal.Tx) error { return tx.Raw().SetUntil(key, []byte("new"), at) })
			},
			"PutEntry": func(db *copal.DB, _ *copal.HashOf[string, int]) error {
				return admin.Put(db, &admin.Entry{Key: key, Value: []byte("new"), Expires: at})
			},
			"PutElements": func(db *copal.DB, h *copal.HashOf[string, int]) error {
				e := admin.Entry{Key: []byte(h.Name()), Collection: "hash", Expires: at}
				return admin.PutElements(db, &e, []admin.Element{{Name: []byte("new"), Value: []byte("1")}}, true)
			},
		} {
			db := kit.Memory(t)
			h, err := copal.OpenHash[string, int](db, "h")
			if err != nil {
				t.Fatal(err)
			}
			kit.MustPut(t, db, "k", "old")
			if err := h.Set("a", 1); err != nil {
				t.Fatal(err)
			}
			if err := f(db, h); err == nil {
				t.Errorf("%s takes %d seconds since 1970", name, at.Unix())
			}
			kit.WantRaw(t, db, "k", "old")
			if v, ok := h.Get("a"); v != 1 || !ok || h.Len() != 1 {
				t.Errorf("after %s until %d: %d, %v, %d fields", name, at.Unix(), v, ok, h.Len())
			}
			for _, k := range []string{"k", "h"} {
				if d, err := db.Raw().Deadline([]byte(k)); !d.IsZero() || err != nil {
					t.Errorf("after %s until %d, %s expires at %v, %v", name, at.Unix(), k, d, err)
				}
			}
			kit.MustClose(t, db)
		}
	}
}

// The last deadlines that can be kept are kept, to the millisecond and through the log, and have
// their meaning.
func TestLastDeadline(t *testing.T) {
	fsys := vfs.NewMem()
	for _, at := range []time.Time{lastDeadline, lastDeadline.Add(-1500 * time.Microsecond), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		db := kit.OpenOn(t, fsys)
		if err := db.Raw().SetUntil([]byte("k"), []byte("v"), at); err != nil {
			t.Fatal(err)
		}
		kit.MustClose(t, db)
		db = kit.OpenOn(t, fsys)
		kit.WantRaw(t, db, "k", "v")
		d, err := db.Raw().Deadline([]byte("k"))
		if want := at.Add(time.Millisecond - 1).Truncate(time.Millisecond); !d.Equal(want) || err != nil {
			t.Errorf("Deadline = %v, %v, want %v", d, err, want)
		}
		if err := db.Raw().ExpireAt([]byte("k"), d); err != nil {
			t.Errorf("ExpireAt(Deadline): %v", err)
		}
		if left, err := db.Raw().TTL([]byte("k")); left <= 0 || err != nil {
			t.Errorf("TTL = %v, %v", left, err)
		}
		kit.MustClose(t, db)
	}
}

// A time to live that leads there from a clock which is far ahead is refused, too.
func TestFarTimesToLiveAreRefused(t *testing.T) {
	clk := logtest.NewClockAt(lastDeadline.Add(-time.Second))
	db, err := copal.OpenMemory(kit.WithClock(clk))
	if err != nil {
		t.Fatal(err)
	}
	defer kit.MustClose(t, db)
	m, aged := kit.MapOf[string, int](t, db, "m"), kit.MapOf[string, int](t, db, "aged", copal.WithTTL(time.Hour))
	kit.MustSet(t, m, "k", 1)
	h, err := copal.OpenHash[string, int](db, "h")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Set("a", 1); err != nil {
		t.Fatal(err)
	}
	in := func(f func(tx *copal.Tx) error) error { return db.Update(f) }
	for name, err := range map[string]error{
		"SetTTL":           m.SetTTL("k", 2, time.Hour),
		"SetTTLAsync":      m.With(copal.Async).SetTTL("k", 2, math.MaxInt64),
		"Expire":           m.Expire("k", time.Hour),
		"WithTTL":          aged.Set("k", 2),
		"PutTTL":           db.Raw().SetTTL([]byte("m:k"), []byte("2"), time.Hour),
		"raw Expire":       db.Raw().Expire([]byte("m:k"), math.MaxInt64),
		"Batch.PutTTL":     db.Raw().Batch().SetTTL([]byte("m:k"), []byte("2"), time.Hour),
		"HashOf.Expire":    h.Expire(time.Hour),
		"TxMap.SetTTL":     in(func(tx *copal.Tx) error { return m.In(tx).SetTTL("k", 2, time.Hour) }),
		"TxMap.Set":        in(func(tx *copal.Tx) error { return aged.In(tx).Set("k", 2) }),
		"HashOf.In.Expire": in(func(tx *copal.Tx) error { return h.In(tx).Expire(time.Hour) }),
		"Update": func() error {
			_, _, err := m.Update("k", func(u *copal.Entry[int]) error { u.Value, u.TTL = 2, time.Hour; return nil })
			return err
		}(),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	kit.WantLoad(t, m, "k", 1)
	if ttl, err := m.TTL("k"); ttl != 0 || err != nil {
		t.Errorf("TTL = %v, %v", ttl, err)
	}
	if ttl, err := h.TTL(); ttl != 0 || err != nil || h.Len() != 1 {
		t.Errorf("TTL of the hash = %v, %v, and it has %d fields", ttl, err, h.Len())
	}
}

// PutEntry takes a deadline that has passed, however long ago: it is no far one.
func TestLongPassedDeadline(t *testing.T) {
	db := kit.Memory(t)
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(-1<<54, 0), time.Unix(-1<<61, 0)} {
		kit.MustPut(t, db, "k", "old")
		if err := admin.Put(db, &admin.Entry{Key: []byte("k"), Value: []byte("v"), Expires: at}); err != nil {
			t.Errorf("%d: %v", at.Unix(), err)
		}
		if has, err := kit.Has(db.Raw(), []byte("k")); has || err != nil {
			t.Errorf("%d: Has = %v, %v", at.Unix(), has, err)
		}
	}
}

// A transaction returns the deadline of a collection as the store does.
func TestTxDeadlineOfACollection(t *testing.T) {
	db := kit.Memory(t)
	h, err := copal.OpenHash[string, int](db, "h")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Set("a", 1), h.Expire(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want, err := db.Raw().Deadline([]byte("h"))
	if err != nil || want.IsZero() {
		t.Fatal(want, err)
	}
	err = db.View(func(tx *copal.Tx) error {
		if d, err := tx.Raw().Deadline([]byte("h")); !d.Equal(want) || err != nil {
			t.Errorf("Deadline = %v, %v, want %v", d, err, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
