package engine

import (
	"sync/atomic"
	"time"
)

// brake lets writes wait for compaction.
type brake struct {
	delay atomic.Int64 // that each write waits, in nanoseconds
	debt  atomic.Int64 // what writes have yet to wait: many wait in one
}

const (
	maxWriteDelay = time.Millisecond       // that a write waits for compaction
	leastWait     = 200 * time.Microsecond // shorter waits are put together
)

// SlowDown lets each write from now on wait by so much of the longest time that it may be made to wait, from 0 to 1.
func (s *Store) SlowDown(by float64) { s.brake.delay.Store(int64(by * float64(maxWriteDelay))) }

// pace lets a write wait if the log has outrun compaction. The caller holds no lock.
func (s *Store) pace() {
	d := s.brake.delay.Load()
	if d == 0 {
		return
	}
	owed := s.brake.debt.Add(d)
	if owed < int64(leastWait) || !s.brake.debt.CompareAndSwap(owed, 0) {
		return
	}
	s.Wait(min(time.Duration(owed), maxWriteDelay))
}
