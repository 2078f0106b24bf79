package seglog

import "github.com/copaldb/copal/internal/tail"

// drain writes the bytes of the tail that are only in the ring to its file. The caller holds l.Mu.
func (l *Log) drain(t *Segment) error {
	l.DrainsLocked()
	return l.Drain(&t.Tail, t.End.Load())
}

// beginRing makes the ring for the appends of this process, if possible.
func (l *Log) beginRing(t *Segment) error {
	if err := l.BeginRing(l.StoreID, l.Random, [2]int64{l.RingBytes}, false); err != nil {
		return err
	}
	t.BeginIn(l.part())
	return nil
}

// part returns the part of the ring for the tail, nil without a ring.
func (l *Log) part() *tail.Part {
	if l.Ring == nil {
		return nil
	}
	return &l.Ring.Parts[0]
}

// leaveRingLocked goes on without the ring, because a page of it cannot be had.
func (l *Log) leaveRingLocked() error {
	if err := l.drain(l.Tail); err != nil {
		return err
	}
	return l.LeaveRing()
}

// closeRing gives back the ring, and removes its file if everything in it is durable in the log.
func (l *Log) closeRing(remove bool) error {
	was, err := l.CloseRing()
	if was && remove {
		l.ReportError("removing the ring", l.RemoveRing()) // the next opening finds nothing new in it
	}
	return err
}
