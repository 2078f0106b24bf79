package tail

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/vfs"
)

// Draining writes what stands in the ring to the files, in pieces that are worth a call of the
// system: when DrainBytes have come together, at the latest DrainEvery after they came (so that
// tail -f follows the log), before a sync, before the next file begins, and at Close. A goroutine
// of the log does it, or the appender where it finds no room in the ring. What is synced at once
// waits for that alone.
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

// Tail is a file that grows. Offsets count from Base on, which is the length of what the file
// begins with.
type Tail struct {
	Path string
	File vfs.File
	Base int64
	End  atomic.Int64 // of what was appended
	room int64        // up to where space is reserved, if beyond the end; the appender's

	part    atomic.Pointer[Part] // where stands what the file does not have; nil for a file without a ring
	drained atomic.Int64         // while it has a part: the file holds all before it
}

// BeginIn has what is appended from now on stand in a part of the ring first, or in the file, if
// that is nil.
func (t *Tail) BeginIn(p *Part) {
	t.drained.Store(t.End.Load())
	t.part.Store(p)
}

// InFile is how much the file has of what was appended up to end.
func (t *Tail) InFile(end int64) int64 {
	if t.part.Load() != nil {
		return min(end, t.drained.Load())
	}
	return end
}

// Wrote notes that all up to end was written to the file, and passes the ring by.
func (t *Tail) Wrote(end int64) { t.drained.Store(end) }

// LoadNewest brings from the ring what p, the bytes at off, has behind what the file has. The first
// inFile bytes are to be read from the file. All have been appended.
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

// Uncut returns an error if somebody has cut the file before end, up to where it
// was written: writing on would leave a hole.
func (t *Tail) Uncut(end int64, bad func(path string, offset int64, err error) error) error {
	switch size, err := t.File.Size(); {
	case err != nil:
		return err
	case size < t.Base+end:
		return bad(t.Path, size, errCut)
	}
	return nil
}

// Behind calls f, which writes behind end or cuts the file off there, up to where it was written. It returns an error
// if somebody has cut the file before end, even while f ran: f left zeros then, and the length tells no more.
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

// lastBytes is how much of the end of a file is compared. A record ends in a checksum.
const lastBytes = 16

// last is what stands before end; nothing where that is too little.
func (t *Tail) last(end int64) (b [lastBytes]byte, err error) {
	if at := t.Base + end - lastBytes; at >= 0 {
		_, err = t.File.ReadAt(b[:], at)
	}
	if err == io.EOF {
		err = errCut
	}
	return b, err
}

// Drain writes what the ring holds of t up to end to its file.
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
		return nil // somebody else was faster
	}
	err := t.Behind(from, l.Owner.Bad, func() error {
		_, err := t.File.WriteAt(p.Region.Bytes()[at:at+n], t.Base+from)
		return err
	})
	if err == nil {
		err = p.ring.intact(l.Owner.Bad) // not before: a page that was cut off reads as zeros
	}
	if err != nil {
		return l.Fail(fmt.Errorf("writing to %s what the ring holds: %w", t.Path, err))
	}
	t.drained.Store(from + n)
	return nil
}

// Enough reports whether a drain is worth it of what was appended to t up to end.
func (t *Tail) Enough(end int64) bool {
	p := t.part.Load()
	return p != nil && end-t.drained.Load() >= p.enough
}

// DrainsLocked is called before a drain of everything appended up to now, by a caller that still
// has the appender's lock: the drainer is to know of later appends.
func (l *Tails) DrainsLocked() { l.undrained.Store(false) }

// Undrained reports whether something was stored in the ring since the last drain began.
func (l *Tails) Undrained() bool { return l.undrained.Load() }

// StoredLocked sees to it that what was just stored is drained in time. enough says that a drain is
// worth it, synced that the caller goes on to sync it, which drains it: to wake somebody for that,
// on another processor, would take a tenth of the sync.
func (l *Tails) StoredLocked(enough, synced bool) {
	if l.Owner.Inline {
		return
	}
	if enough || !synced && !l.undrained.Load() {
		l.undrained.Store(true)
		select {
		case l.drainWake <- struct{}{}:
		default:
		}
	}
}

// KeepDrained is the goroutine that drains. It ends when stop is closed, without a last drain.
// drain is the log's: it drains what is the tail, if that is due or worth it. most is how long it
// may take until it is due.
func (l *Tails) KeepDrained(most time.Duration, drain func(due bool) error, stop <-chan struct{}) {
	var (
		timer  <-chan time.Time
		cancel = func() {}
	)
	defer func() { cancel() }()
	for {
		due := false
		select {
		case <-stop:
			return
		case <-l.drainWake:
		case <-timer:
			due, timer = true, nil
		}
		drain(due) // a failure has been reported
		switch waits := l.Undrained() && l.Failure() == nil; {
		case waits && timer == nil:
			timer, cancel = l.Owner.Clock.After(min(most, DrainEvery))
		case !waits && timer != nil:
			cancel()
			timer = nil
		}
	}
}
