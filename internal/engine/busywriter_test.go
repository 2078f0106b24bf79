package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// busyWriter is a writer that goes on with its work, the next times that somebody who follows it is about to
// open a segment: so the manifest that that one has read names files that are gone.
type busyWriter struct {
	*Store
	t     *testing.T
	times int
	work  func()
	round int
	seen  vfs.FS // by who follows
}

func newBusyWriter(t *testing.T) *busyWriter {
	mem := vfs.NewMem()
	w := &busyWriter{Store: mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 2000 }), t: t}
	w.seen = vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpOpen, Match: func(name string) bool {
		if logtest.IsLog(name) && w.times > 0 {
			w.times--
			w.work()
		}
		return false
	}})
	w.work = w.overwrite
	for range 2 { // so that there is something to compact
		w.work()
	}
	return w
}

// overwrite leaves nothing where it was.
func (w *busyWriter) overwrite() {
	w.round++
	for n := range 100 {
		mustSet(w.t, w.Store, fmt.Sprint("key ", n), fmt.Sprint("round ", w.round))
	}
	if err := w.Compact(context.Background(), nil); err != nil {
		w.t.Fatal(err)
	}
}

// compact compacts the result of compaction once more.
func (w *busyWriter) compact() {
	if err := w.Store.compact(w.log.Compactable(), noPause); err != nil {
		w.t.Fatal(err)
	}
}

// A store that is opened beside a process that writes is found whole, however often that process is faster.
func TestOpenBesideABusyWriter(t *testing.T) {
	w := newBusyWriter(t)
	defer mustClose(t, w.Store)
	w.times = 7
	reader := mustOpen(t, w.seen, func(o *Options) { o.ReadOnly = true })
	defer mustClose(t, reader)
	if got, want := render(contentsOf(t, reader)), render(contentsOf(t, w.Store)); got != want || w.times > 0 {
		t.Errorf("it holds\n%s, want\n%s", got, want)
	}
}

// Who follows a process that writes, or compacts, catches up with it, however often that process is faster.
func TestFollowABusyWriter(t *testing.T) {
	w := newBusyWriter(t)
	defer mustClose(t, w.Store)
	reader := mustOpen(t, w.seen, func(o *Options) { o.ReadOnly = true })
	defer mustClose(t, reader)
	for name, work := range map[string]func(){"overwriting": w.overwrite, "compacting": w.compact} {
		w.work, w.times = work, 9
		work()
		if err := reader.Refresh(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := render(contentsOf(t, reader)), render(contentsOf(t, w.Store)); got != want || w.times > 0 {
			t.Errorf("%s: it holds\n%s, want\n%s", name, got, want)
		}
	}
}

// Damage is reported, though other processes may be at work.
func TestDamageIsNoBusyWriter(t *testing.T) {
	w := newBusyWriter(t)
	first := w.log.Readable()[0].Path
	mustClose(t, w.Store)
	reader := mustOpen(t, w.seen, func(o *Options) { o.ReadOnly = true })
	mustClose(t, reader)
	if err := w.seen.Remove(first); err != nil {
		t.Fatal(err)
	}
	logtest.RemoveIndex(w.seen, "db")
	if _, err := Open("db", testOptions(w.seen, func(o *Options) { o.ReadOnly = true })); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("a store of which a segment is missing: %v", err)
	}
}

// Who checks a store beside a process that writes finds it sound, however often that process is faster.
func TestCheckBesideABusyWriter(t *testing.T) {
	w := newBusyWriter(t)
	defer mustClose(t, w.Store)
	for _, times := range []int{1, 2, 9} {
		w.times = times
		if r, err := Check(context.Background(), "db", w.seen, nil); err != nil || len(r.Problems) > 0 {
			t.Errorf("beside %d compactions: %+v, %v", times, r.Problems, err)
		}
	}
}
