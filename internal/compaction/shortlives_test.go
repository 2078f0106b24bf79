package compaction_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// A scaled-down store: its segments are a sixteenth of the usual ones, and so is all else.
const (
	shortSegment = 1 << 20
	shortBound   = 3 * shortSegment // beside twice the live bytes; 48 MiB of the usual ones
)

func shortLived(o *engine.Options) { o.SegmentBytes = shortSegment }

// TestShortLivesStayBounded: a store whose processes run too briefly for the goroutine to have its
// turn is never longer than twice its live records, and three segments.
func TestShortLivesStayBounded(t *testing.T) {
	clock := logtest.NewClock()
	sets := func(keys, bytes int) func(*testing.T, *engine.Store, int) {
		return func(t *testing.T, s *engine.Store, life int) {
			for i := range keys {
				storetest.Set(t, s, fmt.Sprint("key ", i), fmt.Sprintf("%*d", bytes, life))
			}
		}
	}
	for _, test := range []struct {
		name string
		live int64 // bytes at most; 0 for as many as the store says
		life func(*testing.T, *engine.Store, int)
	}{
		{"values", 330 << 10, sets(64, 5000)},
		{"tiny values", 330 << 10, sets(5000, 10)},
		{"long values", 330 << 10, sets(1, 300<<10)},
		{"large values", 1400 << 10, sets(1, 5<<18)},
		{"another part each time", 2100 << 10, func(t *testing.T, s *engine.Store, life int) {
			for i := range 40 {
				storetest.Set(t, s, fmt.Sprint("key ", (life*40+i*7)%400), fmt.Sprintf("%5000d", life))
			}
		}},
		{"deadlines", 330 << 10, func(t *testing.T, s *engine.Store, life int) {
			for i := range 64 {
				setTTL(t, s, fmt.Sprintf("key %d/%d", life, i), strings.Repeat("x", 5000), time.Second)
			}
			clock.Advance(2 * time.Second)
			s.Stats() // takes them out, as the expirer does, which is a goroutine
		}},
		{"deletions", 1, func(t *testing.T, s *engine.Store, life int) {
			for i := range 64 {
				storetest.Set(t, s, fmt.Sprintf("key %d/%d", life, i), strings.Repeat("x", 5000))
			}
			for i := range 64 {
				storetest.Delete(t, s, fmt.Sprintf("key %d/%d", life, i))
			}
		}},
		{"deletions alone", 0, func(t *testing.T, s *engine.Store, life int) {
			if life == 0 {
				sets(20000, 100)(t, s, 0)
			}
			for i := range 500 {
				if _, err := s.Delete(nil, fmt.Append(nil, "key ", life*500+i), engine.Process); err != nil && life < 40 {
					t.Fatal(err)
				}
			}
		}},
		{"typed", 330 << 10, func(t *testing.T, s *engine.Store, life int) {
			cells := storetest.AttachMap(t, s, "m")
			for i := range 64 {
				cells.SetAsync(t, s, fmt.Sprint(i), fmt.Sprintf("%5000d", life))
			}
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mem, worst := vfs.NewMem(), int64(0)
			for life := range 40 {
				s := storetest.Open(t, mem, shortLived, withClock(clock))
				test.life(t, s, life)
				compaction.Of(s).Finish() // as Close does where there are goroutines
				storetest.Close(t, s)
				u := compaction.Of(s).Usage()
				live := test.live
				if live == 0 {
					live = u.Live
				}
				worst = max(worst, u.Log-2*live)
			}
			t.Logf("%d KiB beside twice the live bytes", worst>>10)
			if worst > shortBound {
				t.Errorf("the log has %d bytes beside twice the live ones, want %d", worst, shortBound)
			}
		})
	}
}

// overgrown makes a store whose log was not compacted.
func overgrown(t *testing.T, mem *vfs.Mem, change ...func(*engine.Options)) (content map[string]string) {
	content = map[string]string{}
	s := storetest.Open(t, mem, append(change, func(o *engine.Options) { o.NoCompaction = true })...)
	for i := range 2000 {
		key, value := fmt.Sprint("key ", i%50), fmt.Sprintf("%5000d", i)
		storetest.Set(t, s, key, value)
		content[key] = value
	}
	storetest.Close(t, s)
	return content
}

// TestOpeningCompacts: a store that is opened with too long a log has a short one some seconds later without a write.
// So has one that was killed, and one with all its garbage in the segment that would be the tail.
func TestOpeningCompacts(t *testing.T) {
	for _, how := range []string{"closed", "killed", "one segment", "one segment, killed"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewCrashMem()
				var content map[string]string
				if strings.HasPrefix(how, "one") {
					content = overgrown(t, mem)
				} else {
					content = overgrown(t, mem, shortLived)
				}
				if strings.HasSuffix(how, "killed") {
					s := storetest.Open(t, mem, func(o *engine.Options) { o.NoCompaction = true })
					storetest.Set(t, s, "key 0", "killed")
					content["key 0"] = "killed"
					mem = mem.ProcessCrash()
				}
				s := storetest.Open(t, mem, shortLived, func(o *engine.Options) { o.Inline = false })
				time.Sleep(3 * time.Second) // of the bubble
				if u := compaction.Of(s).Usage(); u.Log > 2*u.Live+shortBound {
					t.Errorf("%+v", u)
				}
				storetest.WantSame(t, s, content)
				storetest.Close(t, s)
			})
		})
	}
}

// TestOpeningLeavesAlone: a store that has nothing to be compacted is not changed by an opening and a Close without a
// write, however long it is open; nor is one that is not to be compacted.
func TestOpeningLeavesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, overdue := range []bool{false, true} {
			mem := vfs.NewMem()
			if overdue {
				overgrown(t, mem, shortLived)
			} else {
				s := storetest.Open(t, mem, shortLived)
				for i := range 300 {
					storetest.Set(t, s, fmt.Sprint("key ", i%200), fmt.Sprintf("%5000d", i))
				}
				storetest.Close(t, s)
			}
			before := logtest.ContentOfDir(t, mem, "db")
			s := storetest.Open(t, mem, shortLived, func(o *engine.Options) { o.Inline, o.NoCompaction = false, overdue })
			time.Sleep(time.Minute) // of the bubble
			storetest.Close(t, s)
			if after := logtest.ContentOfDir(t, mem, "db"); !maps.Equal(after, before) {
				t.Errorf("overdue %v: an opening has changed the files", overdue)
			}
		}
	})
}

// TestRatioOfAnIdleStore: a store with more records for each key than WithAutoCompact allows is compacted after it was
// opened, without a write, also when all that is dead is in the segment in which the log goes on.
func TestRatioOfAnIdleStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashMem()
		s := storetest.Open(t, mem, func(o *engine.Options) { o.NoCompaction = true })
		for i := range 5000 {
			storetest.Set(t, s, fmt.Sprint("key ", i%10), fmt.Sprintf("%100d", i))
		}
		storetest.Close(t, s)
		s = storetest.Open(t, mem, func(o *engine.Options) {
			o.Inline, o.TooMany, o.CompactEvery = false, engine.RecordsAbove(2), time.Second
		})
		time.Sleep(time.Minute) // of the bubble
		if n := s.Log().Records.Load(); n > 20 {
			t.Errorf("%d records for 10 keys", n)
		}
		storetest.Close(t, s)
	})
}

// TestReadersLeaveAlone: a store that is opened for reading is not changed, whatever is due in it, by its Close or by
// compaction; nor does its log begin.
func TestReadersLeaveAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, how := range []string{"short lives", "crashes"} {
			mem := vfs.NewCrashMem()
			if how == "crashes" {
				for i := range 100 {
					s := storetest.Open(t, mem)
					storetest.Set(t, s, "key", fmt.Sprint(i))
					mem = mem.ProcessCrash()
				}
			} else {
				overgrown(t, mem, shortLived)
			}
			before := logtest.ContentOfDir(t, mem, "db")
			s := storetest.Open(t, mem, shortLived, func(o *engine.Options) { o.Inline, o.ReadOnly = false, true })
			time.Sleep(time.Minute) // of the bubble
			if err := s.Log().Begin(); !errors.Is(err, seglog.ErrReadOnly) {
				t.Errorf("%s: the log of a reader begins: %v", how, err)
			}
			compaction.Of(s).Finish()
			storetest.Close(t, s)
			if after := logtest.ContentOfDir(t, mem, "db"); !maps.Equal(after, before) {
				t.Errorf("%s: a reader has changed the files", how)
			}
		}
	})
}

// TestManyCrashesAreMerged: each crash leaves a segment, and the next opening makes few of many, also without a write
// and beside a window of history that has passed.
func TestManyCrashesAreMerged(t *testing.T) {
	crashes := 100
	if os.Getenv("COPAL_LONG") == "1" {
		crashes = 400
	}
	for _, window := range []bool{false, true} {
		t.Run(fmt.Sprint("window ", window), func(t *testing.T) {
			mem, content := vfs.NewCrashMem(), map[string]string{}
			clock := logtest.NewClock()
			options := func(o *engine.Options) {
				o.Clock = clock
				if window {
					o.Window = 1000
				}
			}
			for i := range crashes {
				s := storetest.Open(t, mem, options)
				key := fmt.Sprint("key ", i%7)
				storetest.Set(t, s, key, fmt.Sprint(i))
				content[key] = fmt.Sprint(i)
				mem = mem.ProcessCrash()
				clock.Advance(time.Second)
			}
			clock.Advance(time.Hour)
			s := storetest.Open(t, mem, options)
			if n := len(s.Log().Segments()); n < crashes {
				t.Fatalf("%d segments: this tests nothing", n)
			}
			before := s.Log().Manifest.Edit
			compaction.Of(s).Finish() // as a keeper does at the opening
			if n := s.Log().Manifest.Edit - before; n > 10 {
				t.Errorf("it took %d manifests", n)
			}
			if n := len(s.Log().Segments()); n > 40 {
				t.Errorf("there are %d segments", n)
			}
			storetest.WantSame(t, s, content)
			storetest.Close(t, s)
		})
	}
}
