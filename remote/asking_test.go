package remote

import (
	"errors"
	"fmt"
	gomaps "maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/redisserver"
)

// startCluster starts a cluster whose nodes say at once that they have waited for their disks. It lends the name
// WAITAOF to FCALL_RO, which calls the function 1: so the tests need no Redis of 7.2.
func startCluster(t *testing.T, settings ...string) *redisserver.Cluster {
	t.Helper()
	c := redisserver.StartCluster(t, append(settings, "--rename-command", "FCALL_RO", "WAITAOF")...)
	for _, n := range c.Nodes[:3] {
		canWait(t, n)
	}
	return c
}

func canWait(t *testing.T, n *redisserver.Node) {
	t.Helper()
	const library = "#!lua name=disk\nredis.register_function{function_name='1', callback=function() return {1, 0} end, flags={'no-writes'}}"
	if _, err := n.Do("FUNCTION", "LOAD", library); err != nil {
		t.Fatal(err)
	}
}

// waited is how often a node was asked to wait for its disk.
func waited(t *testing.T, n *redisserver.Node) int { return calls(t, n, "fcall_ro") }

// calls is how often a node has carried out a command.
func calls(t *testing.T, n *redisserver.Node, name string) (count int) {
	t.Helper()
	reply, err := n.Do("INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	_, stats, _ := strings.Cut(string(reply.([]byte)), "cmdstat_"+name+":")
	fmt.Sscanf(stats, "calls=%d", &count)
	return count
}

// move is a slot on its way.
type move struct {
	c        *redisserver.Cluster
	from, to *redisserver.Node
	slot     int
}

// moveOf is one of the slot of a key, to a node that has slots, or to a new one.
func moveOf(t *testing.T, c *redisserver.Cluster, key string, anew bool) (m move) {
	t.Helper()
	var err error
	m.c = c
	if m.slot, err = c.Slot(key); err != nil {
		t.Fatal(err)
	}
	if m.from, err = c.Master(m.slot); err != nil {
		t.Fatal(err)
	}
	if anew {
		if m.to, err = c.Add(); err != nil {
			t.Fatal(err)
		}
		canWait(t, m.to)
		return m
	}
	m.to = c.Nodes[0]
	if m.to == m.from {
		m.to = c.Nodes[1]
	}
	return m
}

func (m *move) begin(t *testing.T, bring ...string) {
	t.Helper()
	err := m.c.Begin(m.from, m.to, m.slot)
	if err == nil && len(bring) > 0 {
		err = m.c.Bring(m.from, m.to, bring...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (m *move) end(t *testing.T) {
	t.Helper()
	if err := errors.Join(m.c.End(m.from, m.to, m.slot), m.c.Settle()); err != nil {
		t.Fatal(err)
	}
}

// shapes are entries of each sort, whose keys have one {tag}.
type shapes struct {
	db   *copal.DB
	m    *copal.Map[string, int]
	name string
}

func shapesOf(t *testing.T, db *copal.DB, name string) *shapes {
	t.Helper()
	m, err := copal.OpenMap[string, int](db, "m")
	if err != nil {
		t.Fatal(err)
	}
	return &shapes{db, m, name}
}

func (s *shapes) key(sort string) string { return s.name + " " + sort + "{t}" }

// keys are those that the node has.
func (s *shapes) keys() (list []string) {
	for _, sort := range []string{"set", "fsync", "updated", "batched", "gone", "dated", "counter"} {
		list = append(list, "m:"+s.key(sort))
	}
	return append(list, s.key("hash"), s.key("list"), s.key("strings"), s.key("scores"))
}

func (s *shapes) hash() *copal.HashOf[string, int] {
	h, _ := copal.OpenHash[string, int](s.db, s.key("hash"))
	return h
}
func (s *shapes) list() *copal.ListOf[int] {
	l, _ := copal.OpenList[int](s.db, s.key("list"))
	return l
}
func (s *shapes) strings() *copal.SetOf[string] {
	l, _ := copal.OpenSet[string](s.db, s.key("strings"))
	return l
}
func (s *shapes) scores() *copal.SortedSetOf[string] {
	z, _ := copal.OpenSortedSet[string](s.db, s.key("scores"))
	return z
}
func more(e *copal.Entry[int]) error { e.Value++; return nil }

func of[T any](_ T, err error) error              { return err }
func updated[T any](_ T, _ bool, err error) error { return err }

// make makes the entries.
func (s *shapes) make() error {
	var errs []error
	for _, sort := range []string{"set", "fsync", "updated", "batched", "gone", "dated", "counter"} {
		errs = append(errs, s.m.Set(s.key(sort), 1))
	}
	errs = append(errs, s.m.Expire(s.key("dated"), time.Hour))
	fields := map[string]int{}
	for i := range 2000 { // more than a page
		fields[fmt.Sprint(i)] = i
	}
	return errors.Join(append(errs, s.hash().SetAll(fields), s.list().PushBack(1, 2, 3), of(s.strings().Add("a", "b")),
		s.scores().SetAll(map[string]float64{"a": 1, "b": 2}))...)
}

// change changes them, by calls of each kind.
func (s *shapes) change() error {
	for _, call := range []struct {
		what string
		do   func() error
	}{
		{"Set", func() error { return s.m.Set(s.key("set"), 2) }},
		{"SetFSync", func() error { return s.m.SetFSync(s.key("fsync"), 2) }},
		{"Update", func() error { return updated(s.m.Update(s.key("updated"), more)) }},
		{"Update by FSync", func() error { return updated(s.m.With(copal.FSync).Update(s.key("updated"), more)) }},
		{"a batch", func() error {
			b := s.db.Raw().Batch()
			b.Set([]byte("m:"+s.key("batched")), []byte("2"))
			return b.Commit()
		}},
		{"Delete", func() error { return of(s.m.Delete(s.key("gone"))) }},
		{"Persist by FSync", func() error { return s.m.With(copal.FSync).Persist(s.key("dated")) }},
		{"Update of a hash", func() error { return updated(s.hash().Update("0", more)) }},
		{"SetFSync of a hash", func() error { return s.hash().SetFSync("new", 1) }},
		{"Delete of a hash", func() error { return of(s.hash().Delete("1", "2")) }},
		{"Insert", func() error { return s.list().Insert(1, 9) }},
		{"PushFront by FSync", func() error { return s.list().With(copal.FSync).PushFront(0) }},
		{"PopBack", func() error { return updated(s.list().PopBack()) }},
		{"Add", func() error { return of(s.strings().Add("c")) }},
		{"Update of a sorted set", func() error {
			return updated(s.scores().Update("a", func(e *copal.Entry[float64]) error { e.Value += 9; return nil }))
		}},
		{"PopMin", func() error {
			_, _, _, err := s.scores().PopMin()
			return err
		}},
	} {
		if err := call.do(); err != nil {
			return fmt.Errorf("%s of %s: %w", call.what, s.name, err)
		}
	}
	return nil
}

// look compares the contents then.
func (s *shapes) look(t *testing.T, when string) {
	t.Helper()
	is := map[string]int{}
	for _, sort := range []string{"set", "fsync", "updated", "batched", "gone", "dated"} {
		v, err := s.m.Load(s.key(sort))
		if err != nil && !errors.Is(err, copal.ErrNotFound) {
			t.Errorf("%s: %s: %v", when, s.key(sort), err)
		}
		is[sort] = v
	}
	if want := map[string]int{"set": 2, "fsync": 2, "updated": 3, "batched": 2, "gone": 0, "dated": 1}; !gomaps.Equal(is, want) {
		t.Errorf("%s: %s: there is %v, and not %v", when, s.name, is, want)
	}
	if ttl, err := s.m.TTL(s.key("dated")); ttl != 0 || err != nil {
		t.Errorf("%s: %s has %v to live, %v", when, s.name, ttl, err)
	}
	fields := map[string]int{}
	for k, v := range s.hash().All() {
		if _, twice := fields[k]; twice {
			t.Errorf("%s: %s: field %s comes twice", when, s.name, k)
		}
		fields[k] = v
	}
	if len(fields) != 1999 || fields["0"] != 1 || fields["new"] != 1 || fields["3"] != 3 || s.hash().Len() != 1999 {
		t.Errorf("%s: %s: there are %d fields, 0 is %d, new is %d", when, s.name, len(fields), fields["0"], fields["new"])
	}
	if list := slices.Collect(s.list().All()); !slices.Equal(list, []int{0, 1, 9, 2}) {
		t.Errorf("%s: %s: the list is %v", when, s.name, list)
	}
	if set := slices.Sorted(s.strings().All()); !slices.Equal(set, []string{"a", "b", "c"}) {
		t.Errorf("%s: %s: the set is %v", when, s.name, set)
	}
	if z := gomaps.Collect(s.scores().All()); !gomaps.Equal(z, map[string]float64{"a": 10}) {
		t.Errorf("%s: %s: the sorted set is %v", when, s.name, z)
	}
}

// TestWhileASlotMoves: while a slot is on its way, and stays so, each call is made on keys that have yet to move, have
// moved, and are new; each is made once.
func TestWhileASlotMoves(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, anew := range map[string]bool{"to a master": false, "to a new node": true} {
		t.Run(name, func(t *testing.T) {
			m := moveOf(t, startCluster(t), "{t}", anew)
			address := m.c.Nodes[0].Address
			db := store(t, inCluster.driverOf(t, address))
			here, there, fresh := shapesOf(t, db, "here"), shapesOf(t, db, "there"), shapesOf(t, db, "fresh")
			for _, s := range []*shapes{here, there} {
				if err := s.make(); err != nil {
					t.Fatal(err)
				}
			}
			m.begin(t, there.keys()...)
			if err := fresh.make(); err != nil {
				t.Fatal(err)
			}
			apart := store(t, inCluster.connect(t, Config{Addresses: []string{address}, Timeout: time.Hour})).Raw().Batch()
			apart.Set([]byte("m:"+here.key("batched")), []byte("2"))
			apart.Set([]byte("m:"+there.key("batched")), []byte("2"))
			waits := make(chan error, 1)
			go func() { waits <- apart.Commit() }() // which takes until the slot has moved
			for _, s := range []*shapes{here, there, fresh} {
				if err := s.change(); err != nil {
					t.Fatal(err)
				}
				s.look(t, "on the way")
			}
			var all sync.WaitGroup
			for range 4 {
				other := store(t, inCluster.driverOf(t, address))
				for _, name := range []string{"here", "there", "fresh"} {
					s := shapesOf(t, other, name)
					all.Go(func() {
						for n := range 25 {
							m := s.m
							if n%5 == 0 {
								m = m.With(copal.FSync)
							}
							_, _, err := m.Update(s.key("counter"), more)
							_, _, other := s.hash().Update("counter", more)
							if err := errors.Join(err, other); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
			}
			all.Wait()
			counted := func(when string) {
				t.Helper()
				for _, s := range []*shapes{here, there, fresh} {
					n, err := s.m.Load(s.key("counter"))
					field, ok := s.hash().Get("counter")
					if n != 101 || field != 100 || err != nil || !ok {
						t.Errorf("%s: %s: %d and %d are counted, %v", when, s.name, n, field, err)
					}
				}
			}
			counted("on the way")
			walked := func(when string) {
				t.Helper()
				if keys, entries := len(slices.Collect(here.m.Keys())), len(gomaps.Collect(here.m.All())); keys != 18 || entries != 18 || here.m.Len() != 18 {
					t.Errorf("%s: walks yield %d keys and %d entries, Len is %d", when, keys, entries, here.m.Len())
				}
			}
			walked("on the way")
			select {
			case err := <-waits:
				t.Error("keys of two nodes were written together:", err)
			default:
			}
			m.end(t)
			if err := <-waits; err != nil {
				t.Error("a batch that has waited:", err)
			}
			for _, s := range []*shapes{here, there, fresh} {
				if _, err := s.hash().Delete("counter"); err != nil {
					t.Error(err)
				}
				s.look(t, "at the end")
			}
			walked("at the end")
			if err := here.m.Clear(); err != nil || here.m.Len() != 0 {
				t.Errorf("after Clear there are %d: %v", here.m.Len(), err)
			}
		})
	}
}

// TestDurableChangeOfManyCommands: they are one transaction, for a node may refuse some of them and not others, and all
// would be sent again.
func TestDurableChangeOfManyCommands(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := startCluster(t)
	m := moveOf(t, c, "k", false)
	d := inCluster.driverOf(t, m.from.Address)
	if _, err := d.Write(t.Context(), &driver.Write{Key: []byte("k"), Value: []byte("v"), Deadline: uint64(time.Now().Add(time.Hour).UnixMilli())}); err != nil {
		t.Fatal(err)
	}
	before := waited(t, m.from)
	if err := d.Redate(t.Context(), []byte("k"), 0, engine.Power); err != nil {
		t.Fatal(err)
	}
	if n, disk := calls(t, m.from, "exec"), waited(t, m.from)-before; n != 1 || disk != 1 {
		t.Errorf("there were %d transactions, and the disk was waited for %d times", n, disk)
	}
}

// TestAsked: a node is asked instead only if a refusal names one.
func TestAsked(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := startCluster(t)
	m := moveOf(t, c, "k", false)
	d := base(inCluster.driverOf(t, m.from.Address))
	m.begin(t)
	client, err := d.node(t.Context(), m.from.Address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.onto(client).get(t.Context(), read("GET", []byte("k")))
	if got := asked(err); got != m.to.Address {
		t.Errorf("%v names %q, and not %s", err, got, m.to.Address)
	}
	_, err = d.onto(client).get(t.Context(), read("NOSUCH", []byte("k")))
	if got := asked(err); got != "" {
		t.Errorf("%v names %q", err, got)
	}
	if _, err := d.node(t.Context(), ":6379"); err == nil {
		t.Error("there is a node without a host")
	}
}
