package tail

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

var testMarks = &files.MarkFormat{
	Title: "testmark", Log: "log", Offset: "end", Seq: "number", Possible: func(*files.Mark) bool { return true },
	Bad: func(path string, offset int64, err error) error { return fmt.Errorf("%s at %d: %w", path, offset, err) },
}

// newTails returns the Tails of a log in the directory db, which appends its reports to the list.
func newTails(t *testing.T, fsys vfs.FS, told *[]error) *Tails {
	t.Helper()
	if err := fsys.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	l := &Tails{}
	l.Init(Owner{
		FS: fsys, Dir: "db", Clock: clock.System{}, Inline: true, Name: "test", Marks: testMarks,
		Report: func(err error) { *told = append(*told, err) },
		Failed: func(cause error) error { return fmt.Errorf("refused: %w", cause) }, Bad: testMarks.Bad,
		NoSpace: func(err error) error { return fmt.Errorf("test: %w", err) },
	})
	return l
}

var errTest = errors.New("what a test makes fail")

// Only the caller gets an error that is not final. The keeper reports it once, until it has gone
// away.
func TestKeeperTellsOnce(t *testing.T) {
	var told []error
	l := newTails(t, vfs.NewMem(), &told)
	number := uint64(0)
	for i, step := range []struct {
		err  error
		told int
	}{{errTest, 1}, {errTest, 1}, {nil, 1}, {errTest, 2}, {fmt.Errorf("another"), 3}, {nil, 3}} {
		number++
		again := l.SyncInTime(number, func() error {
			if step.err == nil {
				l.Raise(number, files.Mark{})
			}
			return step.err
		})
		if again != (step.err != nil) || len(told) != step.told || l.Failure() != nil {
			t.Errorf("step %d: again %v, reported %v, failure %v", i, again, told, l.Failure())
		}
	}
}

// A failed sync is final, also for those who wait for another, and the mark records it with the
// last known place, though the mark had not been opened. No mark without the failure follows.
func TestFailedSyncIsNoted(t *testing.T) {
	mem := vfs.NewMem()
	var told []error
	f := vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSync, Match: func(name string) bool { return name == "db/1.log" }, N: 1, Err: errTest})
	l := newTails(t, f, &told)
	file, err := f.Open("db/1.log", vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	known := files.Mark{Log: 7, Manifest: 3, Segment: record.NewSegmentID(1, 0), Offset: 50, Seq: 5}
	l.Found(5, &known)
	one := &Tail{Path: "db/1.log", File: file}
	for range 2 {
		if err := l.SyncTo(9, func() error { return l.SyncFile(one, 0) }); !errors.Is(err, errTest) {
			t.Errorf("a sync: %v", err)
		}
	}
	if f.Matched(0) != 1 {
		t.Error("it was tried again")
	}
	l.Raise(9, files.Mark{Log: 7, Segment: known.Segment, Offset: 90, Seq: 9})
	m, err := testMarks.Read(mem, "db/"+MarkName, 7)
	known.Edit, known.Failed = 1, true
	if err != nil || m == nil || *m != known {
		t.Errorf("the mark is %+v, %v, want %+v", m, err, known)
	}
	if len(told) != 1 {
		t.Errorf("reported: %v", told)
	}
	if err := l.CloseMark(); err != nil {
		t.Error(err)
	}
}

// A mark names the manifest that is in place durably, and never an older one than was known.
func TestMarkNamesTheManifest(t *testing.T) {
	mem := vfs.NewMem()
	var told []error
	l := newTails(t, mem, &told)
	id := record.NewSegmentID(1, 0)
	l.Found(5, &files.Mark{Log: 7, Manifest: 3, Segment: id, Offset: 50, Seq: 5})
	if err := l.OpenMark(7); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		do   func()
		want uint64
	}{
		{func() { l.Note() }, 3},
		{func() { l.ManifestNumber.Store(4); l.BeginMark(5, files.Mark{Log: 7, Segment: id, Offset: 50, Seq: 5}) }, 4},
		{func() { l.Raise(6, files.Mark{Log: 7, Segment: id, Offset: 60, Seq: 6}) }, 4},
		{func() { l.ManifestNumber.Store(5); l.Raise(6, files.Mark{}) }, 5},
		{func() { l.Raise(5, files.Mark{Log: 7, Segment: id, Offset: 50, Seq: 5}) }, 5}, // it only grows
	} {
		step.do()
		m, err := testMarks.Read(mem, "db/"+MarkName, 7)
		if err != nil || m == nil || m.Manifest != step.want || m.Seq != l.Durable.Load() {
			t.Errorf("step %d: the mark is %+v, %v, durable %d", i, m, err, l.Durable.Load())
		}
	}
	if err := l.CloseMark(); err != nil || told != nil {
		t.Error(err, told)
	}
}

// TestStillNamed: a file that has lost its name is a failure of the log only while it is the tail: an ended one may
// have been compacted and closed during the look. A look that fails is an error, and no failure of the log.
func TestStillNamed(t *testing.T) {
	for _, closed := range []bool{false, true} {
		fsys := vfs.NewMem()
		if err := fsys.MkdirAll("db"); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Open("db/1", vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		if closed {
			err = f.Close()
		} else {
			err = fsys.Remove("db/1")
		}
		if err != nil {
			t.Fatal(err)
		}
		var told []error
		l, at := newTails(t, fsys, &told), &Tail{Path: "db/1", File: f}
		now := Growing{}
		l.Owner.Mu, l.Owner.Tail = &sync.Mutex{}, func() Growing { return now }
		if err := l.StillNamed(at); err != nil || l.Failure() != nil {
			t.Errorf("closed %v, an ended tail: %v", closed, err)
		}
		now[0] = at
		if err := l.StillNamed(at); err == nil || (l.Failure() == nil) != closed {
			t.Errorf("closed %v, the tail: %v, the failure is %v", closed, err, l.Failure())
		}
	}
}

// The log goes on after an error of the manifest that leaves the old one in place. After any other,
// and after any failed sync of the directory, it has failed.
func TestNotReplaced(t *testing.T) {
	var told []error
	for _, test := range []struct {
		err             error
		refused, failed string // after Refusal, and NotReplaced
	}{
		{errors.New("cause"), "test: cause", "test: cause"},
		{fmt.Errorf("%w: cause", files.ErrRenamed), "test: renamed, with an error: cause", "refused: work: renamed, with an error: cause"},
		{fmt.Errorf("%w: cause", files.ErrSyncDir), "refused: sync of the directory: cause", "refused: work: sync of the directory: cause"},
	} {
		for _, is := range []struct {
			want string
			of   func(l *Tails) error
		}{
			{test.refused, func(l *Tails) error { return l.Refusal(test.err) }},
			{test.failed, func(l *Tails) error { return l.NotReplaced("work", test.err) }},
		} {
			l := newTails(t, vfs.NewMem(), &told)
			if err := is.of(l); err.Error() != is.want || (l.Failure() != nil) != strings.HasPrefix(is.want, "refused") {
				t.Errorf("%v: %v, the failure is %v, want %s", test.err, err, l.Failure(), is.want)
			}
			if failed := l.Failure(); failed != nil && l.Refusal(errTest) != failed {
				t.Errorf("%v: after the failure: %v", test.err, l.Refusal(errTest))
			}
		}
	}
}
