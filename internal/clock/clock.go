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

// Timer is a timer that one goroutine sets again and again. The zero value is off.
type Timer struct {
	C    <-chan time.Time // nil while it is off
	stop func()
}

// Set lets C deliver when d has passed, unless the timer is on.
func (t *Timer) Set(c Clock, d time.Duration) {
	if t.C == nil {
		t.C, t.stop = c.After(d)
	}
}

// Stop turns the timer off. A goroutine that has received from C calls it, too.
func (t *Timer) Stop() {
	if t.C != nil {
		t.stop()
		t.C = nil
	}
}
