package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// duringRanges calls one function when the keys of a range deletion are known, before any lock is taken, and
// the other when it is in the log and shows nowhere yet.
func duringRanges(t *testing.T, gathered, handedOver func()) {
	t.Cleanup(func() { rangesGathered, rangesHandedOver = func() {}, func() {} })
	if gathered != nil {
		rangesGathered = gathered
	}
	if handedOver != nil {
		rangesHandedOver = handedOver
	}
}

func keysIn(t *testing.T, s *Store) (keys []string) {
	t.Helper()
	for key, err := range s.Scan(Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(key))
	}
	return keys
}

// TestRangeDeletesWhatComesMeanwhile: keys that are set, deleted and set again while the keys are looked for
// are deleted, except those out of the range.
func TestRangeDeletesWhatComesMeanwhile(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for _, key := range []string{"k1", "k2", "k3", "other"} {
		mustSet(t, s, key, "before")
	}
	duringRanges(t, func() {
		mustSet(t, s, "k0", "new")
		mustSet(t, s, "k1", "again")
		mustSet(t, s, "other", "again")
		mustSet(t, s, "beside", "new")
		if _, err := s.Delete(nil, []byte("k2"), Process); err != nil {
			t.Fatal(err)
		}
	}, nil)
	if err := s.DeleteRange(keyrange.Prefix([]byte("k")), Process); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if keys := keysIn(t, s); !slices.Equal(keys, []string{"beside", "other"}) {
			t.Errorf("there are %q", keys)
		}
		s = mustOpen(t, mem.ProcessCrash())
	}
}

// TestRangeShowsAtOnce: as soon as the log has a range deletion, no kind of read shows an entry of it; a view
// that was opened before has them all.
func TestRangeShowsAtOnce(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		s := mustOpen(t, vfs.NewMem())
		table, err := s.Map("m")
		if err != nil {
			t.Fatal(err)
		}
		if ordered {
			if err := s.Order(table, keycodec.BytesOrder); err != nil {
				t.Fatal(err)
			}
		}
		const n = 300
		for i := range n {
			mustSet(t, s, fmt.Sprintf("m:%03d", i), "v")
		}
		mustSet(t, s, "n", "v")
		before, err := s.OpenView()
		if err != nil {
			t.Fatal(err)
		}
		handed := false
		duringRanges(t, nil, func() {
			handed = true
			if keys := keysIn(t, s); len(keys) != 1 {
				t.Errorf("a scan finds %d keys", len(keys))
			}
		})
		looks := map[string]func() int{
			"Get": func() (found int) {
				for i := range n {
					if _, err := s.Get(nil, fmt.Appendf(nil, "m:%03d", i)); !errors.Is(err, ErrNotFound) {
						found++
					}
				}
				return found
			},
			"Len": table.Len,
			"Items": func() (found int) {
				for range s.Items(table) {
					found++
				}
				return found
			},
			"a new view": func() (found int) {
				v, err := s.OpenView()
				if err != nil {
					t.Fatal(err)
				}
				defer v.Close()
				found, err = v.Len(table)
				if err != nil {
					t.Fatal(err)
				}
				return found
			},
			"a transaction": func() (found int) {
				if err := s.Look(func(tx *Tx) error {
					found, err = tx.Len(table)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				return found
			},
		}
		for what, look := range looks {
			duringRanges(t, nil, func() {
				handed = true
				if found := look(); found != 0 {
					t.Errorf("ordered %v: %s finds %d entries", ordered, what, found)
				}
				if found, err := before.Len(table); err != nil || found != n {
					t.Errorf("ordered %v, beside %s: the view before has %d entries, %v", ordered, what, found, err)
				}
			})
			if err := s.DeleteRange(keyrange.Prefix([]byte("m:")), Process); err != nil {
				t.Fatal(err)
			}
			before.Close()
			for i := range n {
				mustSet(t, s, fmt.Sprintf("m:%03d", i), "v")
			}
			if before, err = s.OpenView(); err != nil {
				t.Fatal(err)
			}
		}
		if !handed {
			t.Error("nobody looked")
		}
		before.Close()
		mustClose(t, s)
	}
}

// TestGroupsAheadOfARange: members of a group that were written ahead stay, if range deletions of others
// come before the commit; also when compaction and recovery have been there.
func TestGroupsAheadOfARange(t *testing.T) {
	for _, ranges := range [][]string{{"k"}, {"k", "y"}, {"y", "k"}, {"k1", "x", "y"}} {
		mem := vfs.NewMem()
		s := mustOpen(t, mem, func(o *Options) { o.GroupBytes = 100 })
		mustSet(t, s, "k1", "old")
		g := &together{store: s, changes: changesOf([]step{{kind: "set", key: "k1", value: "new"}, {kind: "set", key: "k2", value: "new"}, {kind: "set", key: "x", value: "new"}})}
		if err := g.prepare(); err != nil || !g.ahead {
			t.Fatal(g.ahead, err)
		}
		for _, prefix := range ranges {
			if err := s.DeleteRange(keyrange.Prefix([]byte(prefix)), Process); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := g.lockAndCommit(); err != nil {
			t.Fatal(err)
		}
		g.finish(nil)
		for range 2 {
			for _, key := range []string{"k1", "k2", "x"} {
				wantValue(t, s, key, "new")
			}
			s = mustOpen(t, mem.ProcessCrash())
		}
	}
}

// TestHistoryOfAGroupAhead: a group is one version of an entry, the last, also when it is written ahead and has range
// deletions with the key, or others wrote the key meanwhile, so that its record is written again in another segment.
func TestHistoryOfAGroupAhead(t *testing.T) {
	for _, ranges := range [][]string{nil, {"a"}, {"a", "z"}, {"z", "a"}, {"z"}} {
		for _, others := range []bool{false, true} {
			s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.GroupBytes, o.SegmentBytes, o.Window = 100, 300, 1<<40 })
			mustSet(t, s, "a", "old")
			g := &together{store: s, changes: changesOf([]step{{kind: "set", key: "a", value: "new"}, {kind: "set", key: "other", value: strings.Repeat("x", 500)}})}
			for _, prefix := range ranges {
				g.ranges = append(g.ranges, keyrange.Prefix([]byte(prefix)))
			}
			want := []string{"newest", "new", "old"}
			if others {
				want = []string{"newest", "new", "between", "old"}
			}
			v, err := s.OpenView()
			if err != nil {
				t.Fatal(err)
			}
			g.view = v
			if err := errors.Join(g.gather(), g.prepare()); err != nil || !g.ahead {
				t.Fatal(g.ahead, err)
			}
			if others {
				mustSet(t, s, "a", "between")
			}
			if _, err := g.lockAndCommit(); err != nil {
				t.Fatal(err)
			}
			g.finish(nil)
			v.Close()
			mustSet(t, s, "a", "newest")
			var got []string
			for version, err := range s.History([]byte("a")) {
				if got = append(got, string(version.Value)); err != nil || version.Deleted {
					t.Errorf("ranges %q: version %q, deleted %v, %v", ranges, version.Value, version.Deleted, err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("ranges %q, others %v: the versions are %q, want %q", ranges, others, got, want)
			}
			mustClose(t, s)
		}
	}
}

// TestRangeOfDamage: where the key of an entry cannot be read, nothing is deleted.
func TestRangeOfDamage(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.NoSnapshot = true })
	mustSet(t, s, "k1", "value that is damaged")
	mustSet(t, s, "k2", "v")
	mustClose(t, s)
	s = mustOpen(t, mem, func(o *Options) { o.NoSnapshot = true })
	logtest.DamageIn(t, mem, s.log.Readable()[0].Path, "value that is damaged")
	if err := s.DeleteRange(keyrange.Prefix([]byte("k")), Process); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("DeleteRange: %v", err)
	}
	wantValue(t, s, "k2", "v")
}

// TestRecordOfARange: a range is the same when it is read from its record.
func TestRecordOfARange(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	ints, _ := keycodec.OrderNamed("int")
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() []byte { return []byte("mn:19\xff")[:rng.IntN(7)] }
	number := func() []byte { return ints.AppendSortKey(nil, fmt.Sprint(rng.IntN(30)-10)) }
	ranges := []Range{keyrange.Prefix(nil), keyrange.Prefix([]byte("m:1")), keyrange.Keys(Span{Low: []byte("m"), High: nil}), keyrange.Keys(Span{})}
	for range 200 {
		ranges = append(ranges, keyrange.Prefix(word()), keyrange.Keys(Span{Low: word(), High: word()}), keyrange.Sorted(table.prefixBytes(), ints, Span{Low: number(), High: number()}), keyrange.Sorted(table.prefixBytes(), keycodec.BytesOrder, Span{Low: word(), High: word()}))
	}
	var list []replayedRange
	for i, r := range ranges {
		start, rest := r.Deletion()
		back, err := keyrange.Deleted(start, rest)
		if err != nil {
			t.Fatalf("%q %q: %v", start, rest, err)
		}
		list = append(list, replayedRange{seq: uint64(1 + (i*7919)%len(ranges)), Range: back})
	}
	c := newCover(list)
	for range 5000 {
		key := append([][]byte{nil, []byte("m:"), []byte("m"), []byte("n:")}[rng.IntN(4)], fmt.Sprint(rng.IntN(40)-15)...)
		var last *replayedRange
		for i, r := range ranges {
			has := r.Has(key)
			if has != list[i].Has(key) {
				start, rest := r.Deletion()
				t.Fatalf("%q %q has %q: %v, and when read again %v", start, rest, key, has, !has)
			}
			if has && (last == nil || list[i].seq > last.seq) {
				last = &list[i]
			}
		}
		if got := c.last(key); (got == nil) != (last == nil) || got != nil && got.seq != last.seq {
			t.Fatalf("the last range deletion of %q is %+v, want %+v", key, got, last)
		}
	}
}

// TestRangeInATransaction: after a range deletion a transaction sees only those of its entries that it has set
// since, by any kind of read; and the result is the same when the log is read.
func TestRangeInATransaction(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"m:1", "m:2", "m:3", "n", "o"} {
		mustSet(t, s, key, "old")
	}
	err = s.Transact(Process, func(tx *Tx) error {
		set := func(key string) {
			if err := tx.Write(nil, &Write{Key: []byte(key), Value: []byte("new")}); err != nil {
				t.Fatal(err)
			}
		}
		set("m:2")
		set("m:4")
		if err := tx.DeleteRange(keyrange.Keys(Span{Low: []byte("m:2"), High: []byte("o")})); err != nil {
			return err
		}
		set("m:3")
		looks := map[string]func() (keys []string){
			"Items": func() (keys []string) {
				for item := range tx.Items(table, true) {
					keys = append(keys, string(item.Key))
				}
				return keys
			},
			"InOrder": func() (keys []string) {
				for item := range tx.InOrder(table, keycodec.BytesOrder, Span{}, false) {
					keys = append(keys, string(item.Key))
				}
				return keys
			},
			"Has": func() (keys []string) {
				for i := range 5 {
					key := fmt.Sprint("m:", i)
					if has, err := tx.Has(nil, []byte(key)); has || err != nil {
						keys = append(keys, key)
					}
				}
				return keys
			},
		}
		for what, look := range looks {
			if keys := look(); !slices.Equal(slices.Sorted(slices.Values(keys)), []string{"m:1", "m:3"}) {
				t.Errorf("%s finds %q", what, keys)
			}
		}
		var all []string
		for item := range tx.Scan(Span{}, false) {
			all = append(all, string(item.Key))
		}
		if !slices.Equal(all, []string{"m:1", "m:3", "o"}) {
			t.Errorf("Scan finds %q", all)
		}
		if n, err := tx.Len(table); n != 2 || err != nil {
			t.Errorf("Len is %d, %v", n, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if keys := keysIn(t, s); !slices.Equal(keys, []string{"m:1", "m:3", "o"}) {
			t.Errorf("there are %q", keys)
		}
		wantValue(t, s, "m:3", "new")
		s = mustOpen(t, mem.ProcessCrash())
	}
}

// TestLongBoundsOfARange: a bound that no key can have is refused, as a key is.
func TestLongBoundsOfARange(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	mustSet(t, s, "k", "v")
	for _, n := range []int{MaxKeyBytes + 1, 17 << 20} {
		long := bytes.Repeat([]byte("z"), n)
		for _, r := range []Range{keyrange.Prefix(long), keyrange.Keys(Span{Low: long}), keyrange.Keys(Span{High: long})} {
			if err := s.DeleteRange(r, Process); !errors.Is(err, seglog.ErrTooLarge) {
				t.Errorf("a bound of %d bytes: %v", n, err)
			}
			err := s.Transact(Process, func(tx *Tx) error { return tx.DeleteRange(r) })
			if !errors.Is(err, seglog.ErrTooLarge) {
				t.Errorf("a bound of %d bytes, in a transaction: %v", n, err)
			}
		}
	}
	wantValue(t, s, "k", "v")
}

// TestRangeBesideDamage: an entry that is damaged, and cannot be one of the map's, does not keep a range of the
// map from being deleted.
func TestRangeBesideDamage(t *testing.T) {
	mem := vfs.NewMem()
	noSnapshot := func(o *Options) { o.NoSnapshot = true }
	s := mustOpen(t, mem, noSnapshot)
	if _, err := s.Map("m"); err != nil {
		t.Fatal(err)
	}
	ints, _ := keycodec.OrderNamed("int")
	number := func(n string) []byte { return ints.AppendSortKey(nil, n) }
	mustSet(t, s, "raw", "value that is damaged")
	for i := range 6 {
		mustSet(t, s, fmt.Sprint("m:", i), "v")
	}
	mustClose(t, s)
	s = mustOpen(t, mem, noSnapshot)
	logtest.DamageIn(t, mem, s.log.Readable()[0].Path, "value that is damaged")
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Range{
		keyrange.Sorted(table.prefixBytes(), ints, Span{Low: number("0"), High: number("2")}),
		keyrange.Keys(Span{Low: []byte("m:2"), High: []byte("m:4")}),
		keyrange.Prefix([]byte("m:")),
	} {
		if err := s.DeleteRange(r, Process); err != nil {
			start, rest := r.Asked()
			t.Errorf("deleting %q %q: %v", start, rest, err)
		}
	}
	if n := table.Len(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// TestRangeBesideDeadlines: a view that was opened after a range deletion shows none of its entries, though the
// deadlines of some pass before the locks have taken them out: as records, and as values in memory.
func TestRangeBesideDeadlines(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		clock := logtest.NewClock()
		s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.Clock = clock })
		c := attached(t, s, "m")
		keep := mustView(t, s) // so that versions are noted
		defer keep.Close()
		const n = 3000
		for i := range n {
			w := Write{Key: fmt.Appendf(nil, "m:%04d", i), Value: []byte("v"), Durability: Process}
			if i%10 == 0 {
				w.Expiry = uint64(clock.Now().UnixMilli() + 10)
			}
			if inMemory {
				w.Cells, w.Cell, w.Cost = c, &cache.Cell{Holds: true, Expiry: w.Expiry}, 64
			}
			if _, err := s.Write(c.owner, &w); err != nil {
				t.Fatal(err)
			}
		}
		var v *View
		duringRanges(t, nil, func() {
			v = mustView(t, s)
			clock.Advance(20 * time.Millisecond)
		})
		if err := s.DeleteRange(keyrange.Prefix([]byte("m:")), Process); err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		for i := range n {
			if has, err := v.Has(c.owner, fmt.Appendf(nil, "m:%04d", i)); has || err != nil {
				t.Fatalf("in memory %v: the view has %04d, %v", inMemory, i, err)
			}
		}
		for item := range v.Items(c.owner, true) {
			t.Fatalf("in memory %v: the view lists %q, %v", inMemory, item.Key, item.Err)
		}
		if n, err := v.Len(c.owner); n != 0 || err != nil {
			t.Fatalf("in memory %v: the view counts %d, %v", inMemory, n, err)
		}
	}
}

// TestRangeWhileAnOrderGoes: a range deletion that finds the keys in a passing order does so without it when
// that is let go.
func TestRangeWhileAnOrderGoes(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	c := attached(t, s, "m")
	table := c.owner
	const n = 40
	for i := range n {
		mustSet(t, s, fmt.Sprintf("m:%04d", i), "v")
	}
	var done atomic.Bool
	var walks sync.WaitGroup
	walks.Go(func() {
		for !done.Load() {
			for range s.InOrder(c, keycodec.BytesOrder, Span{}, false) {
				break
			}
			if o := table.order.Load(); o != nil {
				o.letGo()
			}
		}
	})
	r := keyrange.Sorted([]byte("m:"), keycodec.BytesOrder, Span{Low: []byte("9"), High: []byte("99")})
	for range 3000 {
		if err := s.DeleteRange(r, Process); err != nil {
			t.Error(err)
			break
		}
	}
	done.Store(true)
	walks.Wait()
}
