package engine

import (
	"sync/atomic"
	"time"
)

// brake lets writes wait for compaction.
type brake struct {
	delay atomic.Int64 // of each write, in nanoseconds
	debt  atomic.Int64 // the time that writes have yet to wait: one waits for many
}

const (
	maxWriteDelay = time.Millisecond       // of a write
	leastWait     = 200 * time.Microsecond // shorter waits are put together
)

// SlowDown makes each write wait by a part, from 0 to 1, of the longest delay.
func (s *Store) SlowDown(by float64) { s.brake.delay.Store(int64(by * float64(maxWriteDelay))) }

// pace delays a write if the log has outrun compaction. The caller holds no lock.
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
