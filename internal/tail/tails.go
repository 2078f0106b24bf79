package tail

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/vfs"
)

// Owner is the settings that a log gives its tails. They are set before the first tail begins.
type Owner struct {
	FS     vfs.FS
	Dir    string
	Clock  clock.Clock
	Inline bool        // no goroutine drains, but the appender who needs the place; for tests that count operations
	Name   string      // of the package, with which the texts of errors begin
	Report func(error) // gets each error that no call can return
	Closed error       // of work after Close has begun, which is not reported
	Rings  *RingFormat
	Marks  *files.MarkFormat

	Mu   sync.Locker    // the appender's
	Tail func() Growing // returns the tail, none before the first append; called with Mu held

	// NoSpace makes the error of an operation that failed, which says whether there was no room.
	NoSpace func(error) error
	// Failed makes the error that every write returns after one whose outcome is unknown.
	Failed func(cause error) error
	// Bad makes the error of a file that is damaged at an offset, or written by a newer version.
	Bad func(path string, offset int64, err error) error
}

// Tails is the shared part of the growing files of a log.
type Tails struct {
	Owner Owner
	Ring  *Ring // nil where there is none; the appender's
	left  *Ring // one that is not used any more; the appender's

	NoReserve bool // the file system cannot reserve space; the appender's

	failed atomic.Pointer[error]

	drainMu   sync.Mutex // one drains at a time
	drainWake chan struct{}
	undrained atomic.Bool // something was stored in the ring since the last drain began

	_ [64]byte // a cache line apart: those who sync do not slow down those who append

	Durable        atomic.Uint64 // the log is, up to this number
	ManifestNumber atomic.Uint64 // of a manifest of this process, put in place durably; the mark says it

	roundMu sync.Mutex    // a leaf
	round   chan struct{} // that is under way, nil for none; closed at its end; guarded by roundMu
	Syncers atomic.Uint64 // calls of SyncTo up to now
	led     uint64        // those up to the beginning of the last round; of who leads one
	served  uint64        // those among them that came since the one before; of who leads one

	syncMu sync.Mutex // one file is synced at a time
	told   string     // by SyncInTime, of its last error

	markMu   sync.Mutex    // guards the following fields
	marker   *files.Marker // nil before the first append
	sure     files.Mark    // the place up to which the log is durable, without the manifest; without a segment if nothing is known
	marked   files.Mark    // the newest mark, without its number
	markedAt time.Time
}

// Init prepares the tails of a log.
func (l *Tails) Init(o Owner) { l.Owner, l.drainWake = o, make(chan struct{}, 1) }

// Failure is the error that writes return since the first failure whose outcome is unknown, nil
// before.
func (l *Tails) Failure() error {
	if f := l.failed.Load(); f != nil {
		return *f
	}
	return nil
}

// Fail makes the log refuse writes from now on, and returns the error that says so.
func (l *Tails) Fail(cause error) error {
	f := l.Owner.Failed(cause)
	if l.failed.CompareAndSwap(nil, &f) {
		l.Owner.Report(f)
	}
	return *l.failed.Load()
}

// Refusal is the error of a write for which a file could not be made. The state of the log is known
// then, and the next write tries again; only after a failed sync of the directory the names in it
// are unknown, which is final.
func (l *Tails) Refusal(err error) error {
	if errors.Is(err, files.ErrSyncDir) {
		return l.SyncFailed(err)
	}
	if failed := l.Failure(); failed != nil {
		return failed
	}
	return l.Owner.NoSpace(err)
}

// NotReplaced is the error of files.Replace for the manifest, with the work that failed. The old
// one is in place, unless that is unknown, which is final.
func (l *Tails) NotReplaced(what string, err error) error {
	if errors.Is(err, files.ErrRenamed) || errors.Is(err, files.ErrSyncDir) {
		return l.SyncFailed(fmt.Errorf("%s: %w", what, err))
	}
	return l.Refusal(err)
}

// ReportError reports err, if it is not nil, as an error that no call returns, with the work that
// failed. Work that Close has cut short is not reported.
func (l *Tails) ReportError(what string, err error) {
	if err != nil && !errors.Is(err, l.Owner.Closed) {
		l.Owner.Report(fmt.Errorf("%s: %s: %w", l.Owner.Name, what, err))
	}
}

// BeginRing makes the ring for the appends of this process, if one can be had. A size of 0 or less
// asks for none; else random draws its number. An error is final: it is unknown then which file has
// the ring's name.
func (l *Tails) BeginRing(log uint64, random func() uint64, sizes [2]int64, fill bool) error {
	if sizes[0] <= 0 || l.NoReserve {
		return nil
	}
	h := RingHeader{Log: log, ID: max(random(), 1), Sizes: sizes}
	r, err := l.Owner.Rings.Make(l.Owner.FS, l.Owner.Dir, h, fill)
	switch {
	case err == nil:
		l.Ring = r
	case errors.Is(err, files.ErrSyncDir):
		return l.SyncFailed(err)
	case !errors.Is(err, errors.ErrUnsupported) && !vfs.IsNoSpace(err):
		l.ReportError("making the ring; appending goes on without", err)
	}
	return nil
}

// LeaveRing goes on without the ring, because a page of it is not to be had. All in it has been
// drained.
func (l *Tails) LeaveRing() error {
	if err := l.Ring.Leave(); err != nil {
		return l.Fail(fmt.Errorf("leaving the ring: %w", err))
	}
	l.left, l.Ring = l.Ring, nil
	return nil
}

// CloseRing gives back the ring, also one that was left. It reports whether there was one.
func (l *Tails) CloseRing() (was bool, err error) {
	for _, r := range []*Ring{l.Ring, l.left} {
		if r != nil {
			was, err = true, errors.Join(err, r.close())
		}
	}
	l.Ring, l.left = nil, nil
	return was, err
}

// RemoveRing removes a ring that the manifest does not name. It holds nothing any more that is not
// in the files.
func (l *Tails) RemoveRing() error {
	return files.Remove(l.Owner.FS, filepath.Join(l.Owner.Dir, RingName))
}
