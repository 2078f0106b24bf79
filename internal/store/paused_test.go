package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// What happens when somebody is paused between two steps, and others overtake him.

// TestBackupBesideASpareThatIsMade: the manifest names a segment that the keeper has made, and the list does not, when a backup begins; when it looks what is in it, that is the tail.
// The file stays open until it has been copied, though it is compacted meanwhile.
func TestBackupBesideASpareThatIsMade(t *testing.T) {
	mem := vfs.NewMem()
	hold := make(chan struct{})
	noting := &vfs.Fault{Kinds: vfs.OpRename, Match: func(name string) bool { return strings.HasSuffix(name, seglog.BackupTemp) }, N: 1, Hold: hold}
	f := vfs.Inject(mem, noting)
	s := mustOpen(t, f)
	mustSet(t, s, "a", "1")
	l := s.log
	begun := false
	progress := func(done, _ int64) {
		if done == 0 || begun {
			return
		}
		begun = true // the first segment is there
		mustSet(t, s, "c", "3")
		if err := s.Compact(context.Background(), nil); err != nil {
			t.Error(err)
		}
	}
	type result struct {
		BackupReport
		error
	}
	ended := make(chan result)
	go func() {
		report, err := s.Backup(t.Context(), "copy", BackupOptions{Progress: progress})
		ended <- result{report, err}
	}()
	until(f.Fired)
	kept, err := l.createSpare(l.syncedSegments()) // by the keeper, which is paused now
	if err != nil {
		t.Fatal(err)
	}
	tail := l.tail
	l.mu.Lock()
	close(hold)
	until(func() bool { return tail.pins.Load() > 0 }) // the backup waits for l.mu
	l.adoptLocked(kept)
	err = l.rollLocked()
	if err == nil {
		err = l.appendLocked([]*pending{{Head: record.Head{Op: record.Set, Kind: record.Value}, key: []byte("b"), value: []byte("2")}})
	}
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if r := <-ended; r.error != nil || r.Seq != 2 {
		t.Fatalf("the backup goes up to %d: %v", r.Seq, r.error)
	}
	if !kept.unlisted.Load() {
		t.Error("the segment was not compacted meanwhile")
	}
	mustClose(t, s)
	wantSound(t, mem, "copy")
	s, err = Open("copy", testOptions(mem, func(o *Options) { o.ReadOnly = true }))
	if err != nil {
		t.Fatal(err)
	}
	s.wantSame(t, map[string]string{"a": "1", "b": "2"})
	mustClose(t, s)
}

// TestViewOfPartsThatComeMeanwhile: a view lists parts of the index one after the other, and an entry of a later part is written anew, into a segment that was not there when it
// began. That stays until the view has gone through them.
func TestViewOfPartsThatComeMeanwhile(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	content := map[string]string{}
	for n := range 200 {
		content[fmt.Sprint("key ", n)] = "old"
		mustSet(t, s, fmt.Sprint("key ", n), "old")
	}
	mustClose(t, s)
	hold := make(chan struct{})
	bringing := &vfs.Fault{Kinds: vfs.OpRead, Match: func(name string) bool { return strings.HasSuffix(name, seglog.SnapshotName) }}
	f := vfs.Inject(mem, bringing)
	s = mustOpen(t, f)
	t0 := s.RawTable()
	v := mustView(t, s)
	defer v.Close()
	bringing.N, bringing.Hold = f.Matched(0)+1, hold
	type result struct {
		all map[string]string
		err error
	}
	ended := make(chan result)
	go func() {
		r := result{all: map[string]string{}}
		for item := range v.Items(t0, true) {
			if item.Err != nil && r.err == nil {
				r.err = item.Err
			}
			if len(r.all) == 0 {
				if err := s.Compact(context.Background(), nil); err != nil { // the new records, once more
					r.err = err
				}
			}
			r.all[string(item.Key)] = string(item.Value)
		}
		ended <- r
	}()
	until(f.Fired)
	last := "" // of the keys in the order of the index
	for key := range content {
		if last == "" || t0.hash([]byte(key)) > t0.hash([]byte(last)) {
			last = key
		}
	}
	mustSet(t, s, last, "newer") // into the tail, which begins now
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, last, "newest")
	close(hold)
	r := <-ended
	if r.err != nil {
		t.Fatal(r.err)
	}
	if fmt.Sprint(r.all) != fmt.Sprint(content) {
		t.Errorf("the view has %v", r.all)
	}
	mustClose(t, s)
}

// TestPartThatIsListedAndPinned: between the two, entries go to a segment that comes, which is compacted before they are read.
func TestPartThatIsListedAndPinned(t *testing.T) {
	ways := map[string]func(table *Table, f func(key []byte) error) error{
		"for an order": func(table *Table, f func(key []byte) error) error { return table.eachKey(index.Shards-1, f) },
		"to iterate": func(table *Table, f func(key []byte) error) error {
			for item := range table.store.Items(table) {
				if item.Err != nil {
					return item.Err
				}
				if err := f(item.Key); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for what, all := range map[string]int{"for an order": 1, "to iterate": index.Shards} { // parts that are listed
		read := ways[what]
		t.Run(what, func(t *testing.T) {
			s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.OnError = func(err error) { t.Error(err) } })
			table := s.RawTable()
			const last = index.Shards - 1
			var keys []string // in the last part of the index
			for n := 0; len(keys) < 2; n++ {
				if key := fmt.Sprint("key ", n); index.ShardOf(table.hash([]byte(key))) == last {
					keys = append(keys, key)
					mustSet(t, s, key, "old")
				}
			}
			parts := 0
			defer func(before func()) { partListed = before }(partListed)
			partListed = func() {
				if parts++; parts != all {
					return
				}
				if err := s.sealTail(); err != nil {
					t.Error(err)
				}
				for _, key := range keys {
					mustSet(t, s, key, "new")
				}
			}
			var got []string
			err := read(table, func(key []byte) error {
				got = append(got, string(key))
				mustSet(t, s, "garbage", "1")
				mustSet(t, s, "garbage", "2")
				return s.Compact(context.Background(), nil)
			})
			if err != nil {
				t.Error(err)
			}
			slices.Sort(got)
			got = slices.DeleteFunc(slices.Compact(got), func(key string) bool { return key == "garbage" })
			slices.Sort(keys)
			if fmt.Sprint(got) != fmt.Sprint(keys) {
				t.Errorf("read were %q, want %q", got, keys)
			}
			mustClose(t, s)
		})
	}
}

// TestDrainThatIsOvertaken: who was about to drain a segment when another became the tail does not keep the drainer from that.
func TestDrainThatIsOvertaken(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	mustSet(t, s, "a", "1")
	l := s.log
	if l.ring == nil {
		t.Skip("nothing is mapped")
	}
	l.inline = false // as where there is a drainer
	tail := l.tail
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "b", "2")
	if err := l.drainRing(tail); err != nil {
		t.Fatal(err)
	}
	if !l.undrained.Load() || l.ringLoad() == 0 {
		t.Error("what the ring holds of the tail is forgotten")
	}
	if err := l.drainTail(); err != nil || l.undrained.Load() || l.ringLoad() > 0 {
		t.Errorf("%d bytes are left: %v", l.ringLoad(), err)
	}
	l.inline = true
	mustClose(t, s)
}

// TestFollowPastAnEmptySegment: where the keeper and Compact make a segment at the same time, one of the two stays empty, be it that with the lower number or
// that with the higher. A reader that follows goes on behind it.
func TestFollowPastAnEmptySegment(t *testing.T) {
	for what, adopt := range map[string]func(l *log, first, second *segment){
		"the keeper's is the first":  func(l *log, first, second *segment) { l.adoptLocked(second); l.rollLocked(); l.adoptLocked(first) },
		"the keeper's is the second": func(l *log, first, second *segment) { l.adoptLocked(first); l.adoptLocked(second); l.rollLocked() },
		"it is paused":               func(l *log, _, second *segment) { l.adoptLocked(second); l.rollLocked() },
	} {
		t.Run(what, func(t *testing.T) {
			mem := vfs.NewMem()
			s := mustOpen(t, mem)
			mustSet(t, s, "a", "1")
			r := mustOpen(t, mem, func(o *Options) { o.ReadOnly = true })
			l := s.log
			first, err := l.createSpare(l.syncedSegments())
			if err != nil {
				t.Fatal(err)
			}
			second, err := l.createSpare(l.syncedSegments())
			if err != nil {
				t.Fatal(err)
			}
			l.mu.Lock()
			adopt(l, first, second)
			l.mu.Unlock()
			for n := range 3 {
				mustSet(t, s, "b", fmt.Sprint(n))
				if err := r.Refresh(); err != nil {
					t.Fatal(err)
				}
				wantValue(t, r, "a", "1")
				wantValue(t, r, "b", fmt.Sprint(n))
				other := mustOpen(t, mem, func(o *Options) { o.ReadOnly = true }) // which has not followed
				wantValue(t, other, "b", fmt.Sprint(n))
				mustClose(t, other)
				if err := s.log.endTail(); err != nil { // nothing of which is sealed
					t.Fatal(err)
				}
			}
			mustClose(t, r)
			mustClose(t, s)
			wantSound(t, mem, "db")
			s = mustOpen(t, mem)
			s.wantSame(t, map[string]string{"a": "1", "b": "2"})
			if err := s.Compact(context.Background(), nil); err != nil {
				t.Error(err)
			}
			s.wantSame(t, map[string]string{"a": "1", "b": "2"})
			mustClose(t, s)
		})
	}
}

// TestExpiryThatCannotBeRead: an entry whose record the disk does not give when its deadline has come is looked at again.
func TestExpiryThatCannotBeRead(t *testing.T) {
	failing := &vfs.Fault{Kinds: vfs.OpRead | vfs.OpLoad, Forever: true}
	f := vfs.Inject(vfs.NewMem(), failing)
	clock := newTestClock()
	s := mustOpen(t, f, withClock(clock))
	putTTL(t, s, "a", "1", time.Second)
	mustSet(t, s, "b", "2")
	clock.advance(time.Second)
	failing.N = f.Matched(0) + 1
	s.RawTable().Len()
	if !f.Fired() {
		t.Fatal("nothing was read")
	}
	failing.N = 0
	clock.advance(time.Second)
	if n := s.RawTable().Len(); n != 1 {
		t.Errorf("%d entries are counted, want 1", n)
	}
	mustClose(t, s)
}
