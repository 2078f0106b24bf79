package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A value that cannot be stored after all affects no other.

var errNoValue = errors.New("no value that can be stored")

// lossy is an open map of a store, of which some values cannot be encoded when it is their turn.
type lossy struct {
	*Cells
	t        *testing.T
	s        *Store
	mem      *vfs.Mem
	reported []error
}

const lossyKeys = 700

// bad reports which: a few, with good ones before and after them in the order of the shards, and in their
// shards.
func bad(key string) bool { return strings.HasSuffix(key, "77") }

func openLossy(t *testing.T, change ...func(*Options)) *lossy {
	t.Helper()
	l := &lossy{t: t, mem: vfs.NewMem()}
	l.s = mustOpen(t, l.mem, append(change, func(o *Options) {
		o.OnError = func(err error) { l.reported = append(l.reported, err) }
		o.SyncInterval = time.Hour
	})...)
	table, err := l.s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	l.Cells = l.s.Attach(table, Values{Encode: func(dst []byte, c *cache.Cell) ([]byte, uint64, error) {
		if bad(c.Key()) {
			return dst, 0, fmt.Errorf("%w: %s", errNoValue, c.Key())
		}
		return append(dst, "value of "+c.Key()...), 0, nil
	}})
	return l
}

// later sets a value that is encoded when it is written.
func (l *lossy) later(key string) error {
	w := Write{Key: []byte("m:" + key), Cells: l.Cells, Later: true, Durability: Async, Cell: &cache.Cell{Holds: true}, Cost: 100}
	_, err := l.s.Write(l.owner, &w)
	return err
}

// fill sets all; each tenth has a record already.
func (l *lossy) fill() {
	l.t.Helper()
	for i := range lossyKeys {
		if key := fmt.Sprint(i); i%10 == 7 {
			mustSet(l.t, l.s, "m:"+key, "before")
		}
	}
	for i := range lossyKeys {
		if err := l.later(fmt.Sprint(i)); err != nil {
			l.t.Fatal(err)
		}
	}
}

// want compares the content of a store with the values that can be stored.
func (l *lossy) want(what string, s *Store) {
	l.t.Helper()
	got := map[string]string{}
	for item := range s.Items(s.spaces[0].maps["m"]) {
		if item.Err != nil {
			l.t.Errorf("%s: %v", what, item.Err)
		}
		got[string(item.Key)] = string(item.Value)
	}
	for i := range lossyKeys {
		key := fmt.Sprint(i)
		want := "value of " + key
		if bad(key) {
			want = "before"
		}
		if got["m:"+key] != want {
			l.t.Errorf("%s: %s is %q, want %q", what, key, got["m:"+key], want)
		}
	}
	if len(got) != lossyKeys {
		l.t.Errorf("%s: %d entries, want %d", what, len(got), lossyKeys)
	}
}

// wantLost compares the errors that the handler got.
func (l *lossy) wantLost(what string) {
	l.t.Helper()
	l.s.reports.wait()
	told := 0
	for _, err := range l.reported {
		if !errors.Is(err, errNoValue) {
			l.t.Errorf("%s: reported: %v", what, err)
		}
		told += strings.Count(err.Error(), errNoValue.Error())
	}
	if told != lossyKeys/100 {
		l.t.Errorf("%s: the handler was told %d times of %d lost values: %v", what, told, lossyKeys/100, l.reported)
	}
}

// Whoever flushes, and for whatever reason, writes all others, and says which are lost.
func TestFlushGoesOnAfterALostValue(t *testing.T) {
	for what, flush := range map[string]struct {
		do      func(l *lossy) error
		returns bool // the error
	}{
		"Sync":      {func(l *lossy) error { return l.s.Sync() }, true},
		"SyncCells": {func(l *lossy) error { return l.s.SyncCells(l.Cells) }, true},
		"Flush":     {func(l *lossy) error { return l.s.Flush(nil) }, true},
		"Detach":    {func(l *lossy) error { return l.s.Detach(l.Cells) }, true},
		"Close":     {func(l *lossy) error { return l.s.Close() }, true},
		"Compact":   {func(l *lossy) error { return l.s.Compact(context.Background(), nil) }, true},
		"the keeper": {func(l *lossy) error {
			l.s.log.PeriodicSync()
			if l.s.log.Waiting.Load() {
				l.t.Error("the keeper is to try again what cannot be stored")
			}
			return nil
		}, false},
		"OpenView": {func(l *lossy) error {
			v, err := l.s.OpenView()
			if err == nil {
				v.Close()
			}
			return err
		}, false},
		"Items": {func(l *lossy) error { l.want("Items", l.s); return nil }, false},
		"Scan": {func(l *lossy) error {
			var keys []string
			for key, err := range l.s.Scan(Span{}) {
				if err != nil {
					return err
				}
				keys = append(keys, string(key))
			}
			if len(slices.Compact(keys)) != lossyKeys {
				return fmt.Errorf("Scan yields %d keys, want %d", len(keys), lossyKeys)
			}
			return nil
		}, false},
	} {
		l := openLossy(t)
		l.fill()
		err := flush.do(l)
		if n := l.table.Dirty(); n != 0 {
			t.Errorf("%s: %d cells are dirty yet", what, n)
		}
		switch {
		case !flush.returns && err != nil:
			t.Errorf("%s: %v", what, err)
		case flush.returns && (err == nil || strings.Count(err.Error(), errNoValue.Error()) != lossyKeys/100):
			t.Errorf("%s returns %v, want each lost value", what, err)
		}
		l.wantLost(what)
		crashed := mustOpen(t, l.mem.ProcessCrash())
		l.want("after "+what, crashed)
		mustClose(t, crashed)
		if what == "Sync" || what == "SyncCells" {
			if durable, last := l.s.log.Durable.Load(), l.s.log.Last(); durable < last {
				t.Errorf("%s has synced up to record %d of %d", what, durable, last)
			}
		}
		if err := l.s.Close(); err != nil {
			t.Errorf("%s: Close: %v", what, err)
		}
	}
}

// A writer or reader of one key does not learn of a lost value of another.
func TestLostValueOfAnotherKey(t *testing.T) {
	l := openLossy(t, func(o *Options) { o.MaxMemory = 1 })
	defer mustClose(t, l.s)
	shard := l.s.Hash("77") % cache.Shards
	other := "a"
	for l.s.Hash(other)%cache.Shards != shard {
		other += "a"
	}
	limit := l.budget
	limit.Leave(-1 << 20) // room, which is taken back below
	if err := l.later("77"); err != nil {
		t.Fatal(err)
	}
	limit.Leave(1 << 20)
	if err := l.later(other); err != nil {
		t.Errorf("setting another key of the shard: %v", err)
	}
	wantValue(t, l.s, "m:"+other, "value of "+other)
	if err := l.later("77"); !errors.Is(err, errNoValue) {
		t.Errorf("setting what is lost at once: %v", err)
	}
	wantValue(t, l.s, "m:77", absent)
}

// Where a value is lost, the one beneath counts again, for every reader. Only a call that wants the lost one to be
// durable returns the error.
func TestWhatStandsBeneathALostValue(t *testing.T) {
	for what, do := range map[string]func(l *lossy) error{
		"Get": func(l *lossy) error {
			e, err := l.s.Get(nil, []byte("m:77"))
			if err == nil && string(e.Value) != "before" {
				err = fmt.Errorf("%q", e.Value)
			}
			return err
		},
		"AppendGet": func(l *lossy) error {
			b, _, err := l.s.AppendGet(nil, []byte("m:77"), nil)
			if err == nil && string(b) != "before" {
				err = fmt.Errorf("%q", b)
			}
			return err
		},
		"Has": func(l *lossy) error {
			if has, err := l.s.Has(nil, []byte("m:77")); !has || err != nil {
				return fmt.Errorf("%v, %v", has, err)
			}
			if has, err := l.s.Has(nil, []byte("m:177")); has || err != nil { // which has no record
				return fmt.Errorf("of what has no record: %v, %v", has, err)
			}
			return nil
		},
		"SetInMemory": func(l *lossy) error {
			w := Write{Key: []byte("m:77"), Cells: l.Cells, Durability: Memory, Cell: &cache.Cell{Holds: true}, Cost: 100}
			_, err := l.s.Write(l.owner, &w)
			if n := l.owner.Len(); err == nil && n != 2 {
				err = fmt.Errorf("%d entries", n)
			}
			return err
		},
		"a raw update": func(l *lossy) error {
			_, err := l.s.Update(nil, nil, []byte("m:77"), false, Process, nil, func(found Found, w *Write) (bool, error) {
				if !found.Exists || string(found.Value) != "before" {
					return false, fmt.Errorf("it finds %v, %q", found.Exists, found.Value)
				}
				return false, nil
			})
			return err
		},
	} {
		l := openLossy(t)
		mustSet(t, l.s, "m:77", "before")
		if err := errors.Join(l.later("77"), l.later("177")); err != nil {
			t.Fatal(err)
		}
		if err := do(l); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		wantValue(t, l.s, "m:77", "before")
		if err := l.s.Close(); what == "Has" && err != nil {
			t.Errorf("%s: Close: %v", what, err)
		}
		if l.s.reports.wait(); len(l.reported) != 2 {
			t.Errorf("%s: the handler was told of %v", what, l.reported)
		}
	}
}

// If there is no room for values, the deletions are written, in whatever shards they are: some room is kept for
// them.
func TestDeletionsAreFlushedToAFullDisk(t *testing.T) {
	for what, flush := range map[string]func(s *Store, c *Cells) error{
		"Flush":  func(s *Store, c *Cells) error { return s.Flush(nil) },
		"Detach": func(s *Store, c *Cells) error { return s.Detach(c) },
	} {
		disk := logtest.NewSmallDisk(vfs.NewMem(), 1<<20)
		s := mustOpen(t, disk, func(o *Options) { o.SyncInterval = time.Hour })
		c := attached(t, s, "m")
		const n = 300
		for i := range n {
			mustSet(t, s, fmt.Sprint("m:", i), "v")
		}
		disk.SetFree(0)
		for s.Set(nil, []byte("fill"), make([]byte, 1000), 0, Process) == nil { // use up the space reserved ahead
		}
		for i := range n {
			key := fmt.Sprint(i)
			if i%2 == 0 {
				c.setAsync(t, s, key, strings.Repeat("v", 1000))
			} else if _, err := s.Write(c.owner, &Write{Key: []byte("m:" + key), Cells: c, Delete: true, Durability: Async}); err != nil {
				t.Fatal(err)
			}
		}
		if err := flush(s, c); !errors.Is(err, seglog.ErrNoSpace) {
			t.Errorf("%s: %v", what, err)
		}
		for i := 1; i < n; i += 2 {
			if h, err := c.owner.find(s.Hash(fmt.Sprint(i)), fmt.Append(nil, "m:", i)); err != nil || h.address != 0 {
				t.Errorf("%s: %d was not deleted: %v", what, i, err)
			}
		}
		if dirty := c.table.Dirty(); what == "Flush" && dirty != n/2 {
			t.Errorf("%s: %d cells are dirty, want %d", what, dirty, n/2)
		}
		disk.SetFree(1 << 20)
		mustClose(t, s)
	}
}

// Values that are encoded already are appended some at a time as well: other writers wait for no more than that.
func TestFlushAppendsSomeAtATime(t *testing.T) {
	f := vfs.Inject(vfs.NewMem())
	s := mustOpen(t, f)
	defer mustClose(t, s)
	c := attached(t, s, "m")
	for i, n := 0, 0; n < 20; i++ {
		if key := fmt.Sprint(i); s.Hash(key)%cache.Shards == 7 {
			c.setAsync(t, s, key, strings.Repeat("v", 100<<10))
			n++
		}
	}
	if err := s.Flush(c); err != nil {
		t.Fatal(err)
	}
	longest := int64(0) // of the appends, which are too long for the ring
	for _, op := range f.Ops() {
		if op.Kind == vfs.OpWrite && logtest.IsLog(op.Name) {
			longest = max(longest, op.Len)
		}
	}
	if longest > 1<<20 || longest < 100<<10 {
		t.Errorf("up to %d bytes were appended at once", longest)
	}
}

// TestReserveIsForDeletionsAlone: one deletion in a batch of asynchronous sets does not let the
// sets use the room that is kept for deletions.
func TestReserveIsForDeletionsAlone(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 1<<20)
	s := mustOpen(t, disk, func(o *Options) { o.SyncInterval = time.Hour })
	c := attached(t, s, "m")
	// keys of one shard
	var keys []string
	for i := 0; len(keys) < 60; i++ {
		if k := fmt.Sprint(i); s.Hash(k)%cache.Shards == 7 {
			keys = append(keys, k)
		}
	}
	mustSet(t, s, "m:"+keys[0], "v")
	for i := range 2000 {
		mustSet(t, s, fmt.Sprintf("victim%d", i), "x")
	}
	disk.SetFree(0)
	for i := 0; ; i++ { // use up the space reserved ahead
		if err := s.Set(nil, []byte("fill"), make([]byte, 1000), 0, Process); err != nil {
			if !errors.Is(err, seglog.ErrNoSpace) {
				t.Fatal(err)
			}
			break
		}
	}
	for s.Set(nil, []byte("f"), nil, 0, Process) == nil {
	}
	for _, k := range keys[1:] {
		c.setAsync(t, s, k, strings.Repeat("v", 1000))
	}
	if err := s.Flush(nil); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("sets alone: %v", err)
	}
	w := Write{Key: []byte("m:" + keys[0]), Cells: c, Delete: true, Durability: Async}
	if _, err := s.Write(c.owner, &w); err != nil {
		t.Fatal(err)
	}
	before := s.log.Tail.End.Load()
	if err := s.Flush(nil); !errors.Is(err, seglog.ErrNoSpace) {
		t.Errorf("sets and a deletion: %v", err)
	}
	if n := s.log.Tail.End.Load() - before; n > 100 {
		t.Errorf("%d bytes were written, the deletion is shorter", n)
	}
	n := 0
	for i := range 2000 {
		if _, err := s.Delete(nil, []byte(fmt.Sprintf("victim%d", i)), Process); err != nil {
			break
		}
		n++
	}
	if n < 1000 {
		t.Errorf("only %d deletions on the full disk", n)
	}
}
