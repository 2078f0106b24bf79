package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// damagedRuns is a closed store with an order whose runs cannot be read.
func damagedRuns(t *testing.T) *vfs.Mem {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	numbers(t, s)
	for i := range 400 {
		put(t, s, i)
	}
	mustClose(t, s)
	names := runsOf(t, mem)
	if len(names) == 0 {
		t.Fatal("there are no runs")
	}
	for _, name := range names {
		b := logtest.Read(t, mem, name)
		b[len(b)/3] ^= 4
		logtest.Write(t, mem, name, b)
	}
	return mem
}

// A damaged run that no walk meets does not keep the index from being written. The first walk that meets it says
// so.
func TestDamagedRunStopsNoSnapshot(t *testing.T) {
	fewMarks(t, 50)
	mem := damagedRuns(t)
	for round := range 3 {
		before := string(logtest.Read(t, mem, logtest.Index(mem)))
		var told []error
		s := mustOpen(t, mem, func(o *Options) { o.OnError = func(err error) { told = append(told, err) } })
		for i := range 200 {
			put(t, s, 1000+1000*round+i)
		}
		mustClose(t, s)
		if string(logtest.Read(t, mem, logtest.Index(mem))) == before {
			t.Errorf("round %d: Close wrote no snapshot", round)
		}
		if want := max(0, 1-round); len(told) != want {
			t.Errorf("round %d: told %v, want %d errors", round, told, want)
		}
	}
	s := mustOpen(t, mem)
	defer mustClose(t, s)
	wantOrder(t, s, "after all")
}

// Recovery comes by a damaged run once, not at each mark.
func TestRecoveryOverDamagedRun(t *testing.T) {
	fewMarks(t, 50)
	mem := damagedRuns(t)
	s := mustOpen(t, mem, func(o *Options) { o.OnError = func(error) {} })
	for i := range 500 {
		put(t, s, 10000+i)
	}
	image := mem.ProcessCrash()
	mustClose(t, s)
	var told []error
	s = mustOpen(t, image, func(o *Options) { o.OnError = func(err error) { told = append(told, err) } })
	wantOrder(t, s, "after recovery")
	mustClose(t, s)
	if len(told) != 1 {
		t.Errorf("%d errors told, want 1: %v", len(told), told[:min(len(told), 3)])
	}
}

// beforeRuns calls a function once, before the file of a run is opened.
type beforeRuns struct {
	vfs.FS
	f *func()
}

func (b beforeRuns) Open(name string, mode vfs.Mode) (vfs.File, error) {
	if f := *b.f; f != nil && strings.HasSuffix(name, seglog.OrderSuffix) {
		*b.f = nil
		f()
	}
	return b.FS.Open(name, mode)
}

// An order that is exchanged for another while a snapshot folds it has no runs any more, so the snapshot must
// not say that it is built.
func TestOrderIsExchangedDuringSnapshot(t *testing.T) {
	var hook func()
	mem := vfs.NewMem()
	s := mustOpen(t, beforeRuns{mem, &hook})
	table := numbers(t, s)
	for i := range 50 {
		put(t, s, i)
	}
	old, done := table.order.Load(), false
	hook = func() {
		if err := s.Order(table, keycodec.BytesOrder); err != nil {
			t.Error(err)
		}
		done = true
	}
	s.housekeeping.Lock()
	err := s.takeSnapshot(nil)
	s.housekeeping.Unlock()
	if err != nil || !done {
		t.Fatalf("%v; exchanged: %v", err, done)
	}
	if x, err := old.persist(); err != nil || x.Built {
		t.Errorf("of an order that is no more: %+v, %v", x, err)
	}
	image := mem.ProcessCrash()
	mustClose(t, s)
	s = mustOpen(t, image)
	defer mustClose(t, s)
	if table, err = s.Map("n"); err != nil {
		t.Fatal(err)
	}
	if got := inOrder(t, table); len(got) != 50 {
		t.Errorf("the order has %d keys, the table 50", len(got))
	}
}

// lateClock calls a function once, after the next look at it.
type lateClock struct {
	*logtest.Clock
	f func()
}

func (c *lateClock) Now() time.Time {
	now, f := c.Clock.Now(), c.f
	if c.f = nil; f != nil {
		f()
	}
	return now
}

// The clock's time in a snapshot is that at which the keys were taken, or later: an entry that expired before
// is not among them, and would be missing if the clock has been set back since.
func TestClockOfSnapshotIsNotEarlierThanItsKeys(t *testing.T) {
	clock := &lateClock{Clock: logtest.NewClock()}
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.Clock, o.Inline = clock, true })
	defer mustClose(t, s)
	table := numbers(t, s)
	put(t, s, 5)
	deadline, err := s.Deadline(50 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(nil, &Write{Key: number(7), Value: []byte("x"), Expiry: deadline}); err != nil {
		t.Fatal(err)
	}
	clock.f = func() {
		clock.Advance(100 * time.Millisecond)
		table.reap()
	}
	x, err := table.order.Load().persist()
	if err != nil || clock.f != nil {
		t.Fatalf("%v; or nobody looked at the clock", err)
	}
	if got := inOrder(t, table); !slices.Equal(got, []string{"5"}) {
		t.Fatalf("the order has %v", got)
	}
	if x.Clock < deadline {
		t.Errorf("the clock of the order shows %d, before the deadline %d of what is not in it", x.Clock, deadline)
	}
}
