package clock

import "time"

// Clock returns the time and wakes its caller. Implementations are safe for concurrent use.
type Clock interface {
	Now() time.Time
	// After delivers once on the channel when d has passed; stop releases the timer early.
	After(d time.Duration) (c <-chan time.Time, stop func())
}

// System is the machine's clock.
type System struct{}

func (System) Now() time.Time { return time.Now() }

func (System) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
