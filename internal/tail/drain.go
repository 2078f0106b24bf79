package tail

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/vfs"
)

// Draining writes the bytes in the ring to the files, in pieces that are worth a system call: when
// there are DrainBytes, at the latest DrainEvery after the first (so that tail -f follows the log),
// before a sync, before the next file begins, and at Close. A goroutine of the log does it, or the
// appender where it finds no room in the ring. Bytes that are synced at once are drained by the
// sync.
//
// A drain that fails is the end, as any failed append is: the log takes no more, no second try is
// made, and the ring stays, from which reads are served and the next opening recovers. A lack of
// room is no exception: the space was reserved before anything was accepted, so it is not a full
// disk that fails here. It is no failed sync: nothing that the cache holds is in doubt.
//
// The drainer takes no lock that readers or appenders need.

const (
	DrainBytes = 256 << 10
	DrainEvery = 100 * time.Millisecond
)

var errCut = errors.New("the file has been cut off here while it was open")

// Tail is a file that grows. Offsets count from Base on, the length of the file's header.
type Tail struct {
	Path string
	File vfs.File
	Base int64
	End  atomic.Int64 // of the appended bytes
	room int64        // up to where space is reserved, if beyond the end; the appender's

	part    atomic.Pointer[Part] // has the bytes that the file does not have; nil for a file without a ring
	drained atomic.Int64         // while it has a part: the file holds all before it
}

// Growing is the files that grow together, in the order in which they are drained. The second is
// nil in a log of one, and both are before the first append.
type Growing [mostParts]*Tail

// BeginIn makes later appends go to a part of the ring first, or to the file, if p is nil.
func (t *Tail) BeginIn(p *Part) {
	t.drained.Store(t.End.Load())
	t.part.Store(p)
}

// InFile returns how much of the bytes appended up to end the file has.
func (t *Tail) InFile(end int64) int64 {
	if t.part.Load() != nil {
		return min(end, t.drained.Load())
	}
	return end
}

// Wrote notes that all up to end was written to the file, and passes the ring by.
func (t *Tail) Wrote(end int64) { t.drained.Store(end) }

// LoadNewest copies those of the bytes p at off that are only in the ring. The caller reads the
// first inFile bytes from the file. All must have been appended.
func (t *Tail) LoadNewest(p []byte, off int64) (inFile int, err error) {
	part := t.part.Load()
	for part != nil {
		inFile := int(max(t.drained.Load()-off, 0))
		if inFile >= len(p) {
			break
		}
		if ok, err := part.Load(t, p[inFile:], off+int64(inFile)); ok || err != nil {
			return inFile, err
		}
		// it was drained since
	}
	return len(p), nil
}

// Uncut returns an error if another program has cut the file before end, the end of the written
// part: writing on would leave a hole.
func (t *Tail) Uncut(end int64, bad func(path string, offset int64, err error) error) error {
	switch size, err := t.File.Size(); {
	case err != nil:
		return err
	case size < t.Base+end:
		return bad(t.Path, size, errCut)
	}
	return nil
}

// Behind calls f, which writes after end, the end of the written part, or cuts the file off there.
// It returns an error if another program has cut the file before end, even while f ran: f left
// zeros then, and the length no longer shows it.
func (t *Tail) Behind(end int64, bad func(path string, offset int64, err error) error, f func() error) error {
	if err := t.Uncut(end, bad); err != nil {
		return err
	}
	before, err := t.last(end)
	if err == nil {
		err = f()
	}
	if err == nil {
		var now [lastBytes]byte
		if now, err = t.last(end); err == nil && now != before {
			err = errCut
		}
	}
	if err == errCut {
		return bad(t.Path, t.Base+end-lastBytes, err)
	}
	return err
}

// lastBytes is the length of the end of a file that is compared. A record ends in a checksum.
const lastBytes = 16

// last returns the last bytes before end; zeros if there are too few.
func (t *Tail) last(end int64) (b [lastBytes]byte, err error) {
	if at := t.Base + end - lastBytes; at >= 0 {
		_, err = t.File.ReadAt(b[:], at)
	}
	if err == io.EOF {
		err = errCut
	}
	return b, err
}

// DrainAll writes the bytes of files in the ring to the files, in their order.
func (l *Tails) DrainAll(g Growing) error {
	second := int64(0)
	if g[1] != nil {
		second = g[1].End.Load()
	}
	if err := l.Drain(g[0], g[0].End.Load()); err != nil || g[1] == nil {
		return err
	}
	return l.Drain(g[1], second)
}

// Drain writes the bytes of t in the ring, up to end, to its file.
func (l *Tails) Drain(t *Tail, end int64) error {
	for p := t.part.Load(); p != nil && t.drained.Load() < end; {
		if err := l.drainSome(p, t, end); err != nil {
			return err
		}
	}
	return nil
}

// drainSome writes at most DrainBytes.
func (l *Tails) drainSome(p *Part, t *Tail, end int64) error {
	l.drainMu.Lock()
	defer l.drainMu.Unlock()
	if err := l.Failure(); err != nil {
		return err
	}
	from := t.drained.Load()
	at := from % p.Size
	n := min(end-from, p.Size-at, DrainBytes)
	if n <= 0 {
		return nil // another goroutine was faster
	}
	err := t.Behind(from, l.Owner.Bad, func() error {
		_, err := t.File.WriteAt(p.Region.Bytes()[at:at+n], t.Base+from)
		return err
	})
	if err == nil {
		err = p.ring.intact(l.Owner.Bad) // not before: a page that was cut off reads as zeros
	}
	if err != nil {
		return l.Fail(fmt.Errorf("draining the ring to %s: %w", t.Path, err))
	}
	t.drained.Store(from + n)
	return nil
}

// Enough reports whether a drain of one of the files pays.
func (g Growing) Enough() bool {
	return g[0].Enough(g[0].End.Load()) || g[1] != nil && g[1].Enough(g[1].End.Load())
}

// Enough reports whether a drain of t up to end pays.
func (t *Tail) Enough(end int64) bool {
	p := t.part.Load()
	return p != nil && end-t.drained.Load() >= p.enough
}

// DrainsLocked is called before a drain of everything appended up to now, by a caller that still
// has the appender's lock: the drainer must notice later appends.
func (l *Tails) DrainsLocked() { l.undrained.Store(false) }

// Undrained reports whether something was stored in the ring since the last drain began.
func (l *Tails) Undrained() bool { return l.undrained.Load() }

// StoredLocked has the bytes that were just stored drained in time. enough reports that a drain
// pays, synced that the caller syncs them next, which drains them: waking the drainer on another
// processor would take a tenth of the sync.
func (l *Tails) StoredLocked(enough, synced bool) {
	if l.Owner.Inline {
		return
	}
	if enough || !synced && !l.undrained.Load() {
		l.undrained.Store(true)
		Wake(l.drainWake)
	}
}

// Wake wakes the goroutine that receives from c, which has room for one.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// DrainTail drains the present tail, if that is due or pays. Earlier files were drained when they
// ended.
func (l *Tails) DrainTail(due bool) error {
	l.Owner.Mu.Lock()
	g := l.Owner.Tail()
	if g[0] == nil || !due && !g.Enough() {
		l.Owner.Mu.Unlock()
		return nil
	}
	l.DrainsLocked()
	l.Owner.Mu.Unlock()
	return l.DrainAll(g)
}

// KeepDrained is the goroutine that drains, at the latest after the time most. It ends when stop is
// closed, without a last drain.
func (l *Tails) KeepDrained(most time.Duration, stop <-chan struct{}) {
	var timer clock.Timer
	defer timer.Stop()
	for {
		due := false
		select {
		case <-stop:
			return
		case <-l.drainWake:
		case <-timer.C:
			due = true
			timer.Stop()
		}
		l.DrainTail(due) // a failure has been reported
		if l.Undrained() && l.Failure() == nil {
			timer.Set(l.Owner.Clock, min(most, DrainEvery))
		} else {
			timer.Stop()
		}
	}
}
