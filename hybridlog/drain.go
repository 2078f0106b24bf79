package hybridlog

import (
	"github.com/copaldb/copal/internal/tail"
)

// drain writes the part of the tail that is only in the ring to the files. The caller holds l.mu.
func (l *Log) drain(s *segment) error {
	l.tails.DrainsLocked()
	return l.tails.DrainAll(s.files())
}

// files are those of s, in the order in which they are drained: bytes before frames.
func (s *segment) files() tail.Growing { return tail.Growing{&s.bytes, &s.sums} }

// growing returns the files of the tail.
func (l *Log) growing() (g tail.Growing) {
	if l.tail != nil {
		g = l.tail.files()
	}
	return g
}

// beginRing makes the ring for the writes of this process, if one can be had. Its name is durable before the
// manifest names it.
func (l *Log) beginRing() error {
	if l.tails.Ring != nil {
		return nil
	}
	return l.tails.BeginRing(l.logID, l.opts.random, [2]int64{l.opts.dataRing, l.opts.frameRing}, l.opts.policy == AlwaysSync)
}
