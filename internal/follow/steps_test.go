package follow_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/follow"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// Looks of a reader between two steps of a writer, and steps of a writer between two steps of a
// look, from the empty directory on.

// stepped is a writer that is looked at. Its lives are short, its ring is small, and so are its segments.
type stepped struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *vfs.Mem
	fs      vfs.FS        // of the writer
	writer  *engine.Store // nil before the first
	content map[string]string
	coming  map[string]string // the keys that are being changed, with their next values: together
	n       int
}

func newStepped(t *testing.T, seed uint64) *stepped {
	mem := vfs.NewMem()
	return &stepped{t: t, rng: rand.New(rand.NewPCG(seed, 71)), mem: mem, fs: mem, content: map[string]string{}}
}

// act is one action of the writer. The first ones write nothing.
func (x *stepped) act() {
	t, rng := x.t, x.rng
	x.n++
	k := rng.IntN(16)
	switch {
	case x.writer == nil || x.n > 3 && k == 0:
		if x.writer != nil {
			storetest.Close(t, x.writer)
		}
		x.open()
	case k == 1 || x.n < 4:
		x.open() // it has died
	case k == 2:
		if err := storetest.Compact(x.writer); err != nil {
			t.Fatal(err)
		}
	case k == 3:
		storetest.CompactSome(t, x.writer, rng)
	case k == 4:
		if err := x.writer.Sync(); err != nil {
			t.Fatal(err)
		}
	case k == 5:
		x.spare()
	case k == 6:
		if _, err := x.writer.Map("m"); err != nil {
			t.Fatal(err)
		}
	default:
		x.write()
	}
}

// spare makes the next segment before it is needed, as the keeper does. Two that are made at once are one
// too many.
func (x *stepped) spare() {
	l := x.writer.Log()
	if l.Tail == nil {
		return
	}
	for range 1 + x.rng.IntN(2) {
		s, err := l.CreateSpare(l.SyncedSegments())
		if err != nil {
			x.t.Fatal(err)
		}
		l.AdoptLocked(s)
	}
}

func (x *stepped) open() {
	x.writer = storetest.Open(x.t, storetest.Unlocked{FS: x.fs}, func(o *engine.Options) {
		o.SegmentBytes, o.GroupBytes = 900, 300
		if x.rng.IntN(4) == 0 {
			o.RingBytes = -1
		}
	})
}

func (x *stepped) write() {
	x.coming = map[string]string{}
	var changes []*engine.Change
	for range 1 + max(x.rng.IntN(10)-5, 0) {
		key := []string{"m:", ""}[x.rng.IntN(2)] + fmt.Sprint(x.rng.IntN(12))
		w := engine.Write{Key: []byte(key)}
		switch _, twice := x.coming[key]; {
		case twice:
			continue
		case x.content[key] != "" && x.rng.IntN(4) == 0:
			w.Delete = true
			x.coming[key] = storetest.Absent
		default: // some pass the ring by
			value := fmt.Sprint(x.n, strings.Repeat("v", []int{5, 100, logtest.TestRing}[x.rng.IntN(3)]))
			w.Value, x.coming[key] = []byte(value), value
		}
		changes = append(changes, &engine.Change{Write: w})
	}
	if err := x.writer.WriteAll(changes, engine.Process); err != nil {
		x.t.Fatal(err)
	}
	x.written()
}

func (x *stepped) written() {
	for key, value := range x.coming {
		if x.content[key] = value; value == storetest.Absent {
			delete(x.content, key)
		}
	}
	x.coming = nil
}

// reads returns the entries of a reader.
func (x *stepped) reads(r *engine.Store) map[string]string {
	x.t.Helper()
	has := map[string]string{}
	for _, table := range r.Tables() {
		for item := range r.Items(table) {
			if item.Err != nil {
				x.t.Fatal(item.Err)
			}
			e, err := r.Get(nil, item.Key)
			if has[string(item.Key)] = string(e.Value); err != nil {
				x.t.Fatal(err)
			}
		}
	}
	return has
}

// shows fails unless a reader has the finished writes, with or without the one under way.
func (x *stepped) shows(who string, r *engine.Store) {
	x.t.Helper()
	has := x.reads(r)
	if maps.Equal(has, x.content) {
		return
	}
	next := maps.Clone(x.content)
	for key, value := range x.coming {
		if next[key] = value; value == storetest.Absent {
			delete(next, key)
		}
	}
	if !maps.Equal(has, next) {
		x.t.Fatalf("at action %d %s has\n%q, want\n%q, with or without\n%q", x.n, who, has, x.content, x.coming)
	}
}

// TestFollowBetweenTheStepsOfAWriter: before every operation of a writer's on its files, a reader
// that is there looks, and another one opens the store. Both show the finished writes, and the one
// under way whole or not at all.
func TestFollowBetweenTheStepsOfAWriter(t *testing.T) { logtest.BothWays(t, followBetweenSteps) }

func followBetweenSteps(t *testing.T) {
	seeds := uint64(2)
	if storetest.Long() {
		seeds = 300
	}
	for seed := range seeds {
		x := newStepped(t, seed)
		var reader *engine.Store
		early, steps := 0, 0
		look := func() {
			steps++
			other, err := store.Open("db", storetest.Options(x.mem, func(o *engine.Options) { o.ReadOnly = true }))
			switch {
			case errors.Is(err, fs.ErrNotExist) && x.writer == nil:
				early++
				return
			case err != nil:
				t.Fatalf("seed %d, action %d: %v", seed, x.n, err)
			}
			x.shows("the reader that has opened now", other)
			storetest.Close(t, other)
			if reader == nil {
				reader = storetest.Open(t, x.mem, func(o *engine.Options) { o.ReadOnly = true })
			}
			before := follow.Of(reader).Tailer()
			if err := reader.Refresh(); err != nil {
				t.Fatalf("seed %d, action %d: %v", seed, x.n, err)
			}
			if follow.Of(reader).Tailer() != before {
				t.Errorf("seed %d, action %d: a reader that looks all the time has begun again", seed, x.n)
			}
			x.shows("the reader", reader)
		}
		x.fs = vfs.Inject(x.mem, &vfs.Fault{Match: func(string) bool { look(); return false }})
		for range 80 {
			x.act()
		}
		storetest.Close(t, reader)
		if early == 0 || steps < 150 {
			t.Errorf("seed %d: %d steps, %d before there was a store: this has tested little", seed, steps, early)
		}
	}
}

// TestFollowWhileAWriterActs: between any two operations of a look, or of the opening of a reader, the
// writer acts. The look succeeds, and shows all that was written before it; the next one shows the rest.
func TestFollowWhileAWriterActs(t *testing.T) { logtest.BothWays(t, followWhileActing) }

func followWhileActing(t *testing.T) {
	seeds, steps := uint64(12), 25
	if storetest.Long() {
		seeds, steps = 100, 1000
	}
	acted := 0
	for seed := range seeds {
		x := newStepped(t, seed)
		var reader *engine.Store
		left := 0 // operations until the writer acts
		readFS := vfs.Inject(x.mem, &vfs.Fault{Kinds: vfs.Reading, Match: func(string) bool {
			if left--; left == 0 {
				left = 1 + x.rng.IntN(40)
				acted++
				for range 1 + x.rng.IntN(3)*x.rng.IntN(20) { // the ring goes round meanwhile
					x.act()
				}
			}
			return false
		}})
		x.act() // there is a store
		for range steps {
			left = 1 + x.rng.IntN(20)
			before := maps.Clone(x.content)
			if reader == nil {
				reader = storetest.Open(t, readFS, func(o *engine.Options) { o.ReadOnly = true })
			} else if err := reader.Refresh(); err != nil {
				t.Fatalf("seed %d, action %d: %v", seed, x.n, err)
			}
			left = 0
			now := x.reads(reader)
			for key, value := range before {
				if x.content[key] == value && now[key] != value {
					t.Fatalf("seed %d, action %d: %q is %.40q, want %.40q", seed, x.n, key, now[key], value)
				}
			}
			if err := reader.Refresh(); err != nil {
				t.Fatalf("seed %d, action %d: %v", seed, x.n, err)
			}
			x.shows("the reader", reader)
			if x.rng.IntN(10) == 0 {
				storetest.Close(t, reader)
				reader = nil
			}
			if x.rng.IntN(3) == 0 {
				x.act()
			}
		}
	}
	if acted < int(seeds)*steps/4 {
		t.Errorf("the writer has acted %d times: this has tested little", acted)
	}
}

// TestFollowFirstWriteWithinALook: between any two operations of a look at a store without a record, or of the
// opening of a reader there, the first write comes, or a whole life of a writer.
func TestFollowFirstWriteWithinALook(t *testing.T) { logtest.BothWays(t, followFirstWrite) }

func followFirstWrite(t *testing.T) {
	for _, early := range []bool{false, true} { // the reader is there before
		for _, writes := range []int{1, 30} {
			n := 1
			for acted := true; acted; n++ {
				x := newStepped(t, uint64(n))
				x.open()
				left := -1
				readFS := vfs.Inject(x.mem, &vfs.Fault{Kinds: vfs.Reading, Match: func(string) bool {
					if left--; left == 0 {
						for range writes {
							x.write()
						}
						if writes > 1 {
							if err := storetest.Compact(x.writer); err != nil {
								t.Fatal(err)
							}
							storetest.Close(t, x.writer)
							x.open()
							x.write()
						}
					}
					return false
				}})
				if !early {
					left = n
				}
				reader := storetest.Open(t, readFS, func(o *engine.Options) { o.ReadOnly = true })
				table, err := reader.Map("m")
				if err != nil {
					t.Fatal(err)
				}
				reader.Attach(table, engine.Values{})
				if early {
					left = n
				}
				for range 2 {
					if err := reader.Refresh(); err != nil {
						t.Fatalf("early %v, operation %d: %v", early, n, err)
					}
				}
				if acted = left <= 0; acted {
					x.shows("the reader", reader)
				}
				storetest.Close(t, reader)
				storetest.Close(t, x.writer)
			}
			if n < 4 {
				t.Errorf("early %v: a look has %d operations: this has tested little", early, n-1)
			}
		}
	}
}

// TestFollowPastAnEmptySegment: a follower reads past the empty segment that remains where the
// keeper and Compact make one at the same time, whichever of the two has the lower number.
func TestFollowPastAnEmptySegment(t *testing.T) {
	for what, adopt := range map[string]func(l *seglog.Log, first, second *seglog.Segment){
		"the keeper's is the first": func(l *seglog.Log, first, second *seglog.Segment) {
			l.AdoptLocked(second)
			l.RollLocked()
			l.AdoptLocked(first)
		},
		"the keeper's is the second": func(l *seglog.Log, first, second *seglog.Segment) {
			l.AdoptLocked(first)
			l.AdoptLocked(second)
			l.RollLocked()
		},
		"it is paused": func(l *seglog.Log, _, second *seglog.Segment) { l.AdoptLocked(second); l.RollLocked() },
	} {
		t.Run(what, func(t *testing.T) {
			mem := vfs.NewMem()
			s := storetest.Open(t, mem)
			storetest.Set(t, s, "a", "1")
			r := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
			l := s.Log()
			first, err := l.CreateSpare(l.SyncedSegments())
			if err != nil {
				t.Fatal(err)
			}
			second, err := l.CreateSpare(l.SyncedSegments())
			if err != nil {
				t.Fatal(err)
			}
			l.Mu.Lock()
			adopt(l, first, second)
			l.Mu.Unlock()
			for n := range 3 {
				storetest.Set(t, s, "b", fmt.Sprint(n))
				if err := r.Refresh(); err != nil {
					t.Fatal(err)
				}
				storetest.Want(t, r, "a", "1")
				storetest.Want(t, r, "b", fmt.Sprint(n))
				other := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true }) // which has not followed
				storetest.Want(t, other, "b", fmt.Sprint(n))
				storetest.Close(t, other)
				if err := s.Log().EndTail(); err != nil { // nothing of which is sealed
					t.Fatal(err)
				}
			}
			storetest.Close(t, r)
			storetest.Close(t, s)
			storetest.WantSound(t, mem, "db")
			s = storetest.Open(t, mem)
			storetest.WantSame(t, s, map[string]string{"a": "1", "b": "2"})
			if err := storetest.Compact(s); err != nil {
				t.Error(err)
			}
			storetest.WantSame(t, s, map[string]string{"a": "1", "b": "2"})
			storetest.Close(t, s)
		})
	}
}
