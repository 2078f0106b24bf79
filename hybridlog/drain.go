package hybridlog

import (
	"github.com/copaldb/copal/internal/tail"
)

// drain writes the part of the tail that is only in the ring to the files. The caller holds l.mu.
func (l *Log) drain(s *segment) error {
	l.tails.DrainsLocked()
	return l.drainFiles(s)
}

// drainFiles writes the part of s that is only in the ring to the files, bytes before frames.
func (l *Log) drainFiles(s *segment) error {
	frames := s.sums.End.Load()
	if err := l.drainBytes(s); err != nil {
		return err
	}
	return l.tails.Drain(&s.sums, frames)
}

func (l *Log) drainBytes(s *segment) error { return l.tails.Drain(&s.bytes, s.bytes.End.Load()) }

// enough reports whether a drain is worth it.
func (s *segment) enough() bool {
	return s.bytes.Enough(s.bytes.End.Load()) || s.sums.Enough(s.sums.End.Load())
}

// keepDrained is the goroutine that drains. It ends when stop is closed, without a last drain.
func (l *Log) keepDrained() {
	l.tails.KeepDrained(tail.DrainEvery, l.drainTail, l.stop)
}

// drainTail drains the tail, if it is due or there is enough to write.
func (l *Log) drainTail(due bool) error {
	l.mu.Lock()
	t := l.tail
	if t == nil || !due && !t.enough() {
		l.mu.Unlock()
		return nil
	}
	l.tails.DrainsLocked()
	l.mu.Unlock()
	return l.drainFiles(t)
}

// beginRing makes the ring for the writes of this process, if one can be had. Its name is durable before the
// manifest names it.
func (l *Log) beginRing() error {
	if l.tails.Ring != nil {
		return nil
	}
	return l.tails.BeginRing(l.logID, l.opts.random, [2]int64{l.opts.dataRing, l.opts.frameRing}, l.opts.policy == AlwaysSync)
}
