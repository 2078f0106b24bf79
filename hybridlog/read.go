package hybridlog

import (
	"fmt"
	"io"
	"sync"

	"github.com/copaldb/copal/internal/vfs"
)

// ReadAt fills p with the bytes at off, exactly as they were written, across any number of writes.
// As io.ReaderAt demands, it returns fewer bytes only with an error: io.EOF at the end of the log,
// also if there is no byte to read.
//
// Its cost does not depend on how long the log is. Bytes below First are ErrTrimmed.
func (l *Log) ReadAt(p []byte, off int64) (int, error) {
	in, err := l.enter()
	if err != nil {
		return 0, err
	}
	defer l.gate.Leave(in)
	if off < 0 {
		return 0, fmt.Errorf("%w: offset %d", ErrRange, off)
	}
	end := l.end.Load() // before the set, so that the set has all bytes up to end
	set := l.set.Load()
	if Address(off) < set.first && len(p) > 0 {
		return 0, trimmed(Address(off), set.first)
	}
	short := error(nil)
	if len(p) > 0 && int64(len(p)) > end-off {
		p, short = p[:max(end-off, 0)], io.EOF
	}
	if n, err := l.readSet(set, p, off); err != nil {
		return n, err
	}
	return len(p), short
}

func trimmed(at, first Address) error {
	return fmt.Errorf("%w: offset %d, the log begins at %d", ErrTrimmed, at, first)
}

// readSet fills p with the bytes at off, which are all there.
func (l *Log) readSet(set *set, p []byte, off int64) (done int, err error) {
	for done < len(p) {
		at := Address(off) + Address(done)
		s := set.find(at)
		c := s.content.Load()
		if c == nil {
			if c, err = s.open(); err != nil {
				fresh := l.refreshed(set, err)
				if fresh == nil {
					return done, err
				}
				if set = fresh; at < set.first {
					return done, trimmed(at, set.first)
				}
				continue
			}
		}
		n := int(min(int64(len(p)-done), int64(s.last()-at)))
		if err := s.readAt(c, p[done:done+n], int64(at-s.start)); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

var viewPool = sync.Pool{New: func() any { return new([]byte) }}

// pooledView is the largest buffer that is kept for the next View.
const pooledView = 1 << 20

// View calls fn with the n bytes at an address, and returns its error. It does not copy bytes that
// are in one mapped file. fn may use them until it returns, and must not change them. If the log
// ends before them the error is io.EOF, and if they are trimmed it is ErrTrimmed; fn is not called
// then.
//
// fn may read and write the log, but not close, trim or compact it.
func (l *Log) View(at Address, n int, fn func(p []byte) error) error {
	in, err := l.enter()
	if err != nil {
		return err
	}
	defer l.gate.Leave(in)
	if at < 0 || n < 0 {
		return fmt.Errorf("%w: %d bytes at %d", ErrRange, n, at)
	}
	end := l.end.Load()
	set := l.set.Load()
	switch {
	case at < set.first && n > 0:
		return trimmed(at, set.first)
	case int64(n) > end-int64(at):
		return io.EOF
	case n == 0:
		return fn(nil)
	}
	s := set.find(at)
	c, err := s.open()
	if err != nil {
		return l.viewCopy(set, at, n, fn) // which looks again, or says the same
	}
	off := int64(at - s.start)
	if c.mapped != nil && s.inFile() >= off+int64(n) {
		return s.lend(c, off, off+int64(n), fn)
	}
	return l.viewCopy(set, at, n, fn)
}

// lend calls fn with bytes of the mapped file. If the disk fails under it, fn ends there, and the
// error says so.
func (s *segment) lend(c *content, from, to int64, fn func(p []byte) error) (err error) {
	defer vfs.Caught(vfs.Catch(), c.mapped, &err)
	if err := s.verifyMapped(c, from, to); err != nil {
		return err
	}
	return fn(c.mapped[from:to:to])
}

func (l *Log) viewCopy(set *set, at Address, n int, fn func(p []byte) error) error {
	buf := viewPool.Get().(*[]byte)
	defer viewPool.Put(buf)
	p := *buf
	if cap(p) < n {
		if p = make([]byte, n); n <= pooledView {
			*buf = p
		}
	}
	if _, err := l.readSet(set, p[:n], int64(at)); err != nil {
		return err
	}
	return fn(p[:n:n])
}
