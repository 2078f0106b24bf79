package seglog

import (
	"fmt"
	"time"
)

// The times of records never decrease. So after a record that was written while the clock was ahead, all later ones
// have its time until the clock has passed it. No time between names a moment then; the numbers of records do.

// clockSlack is the time in milliseconds by which the clock may be earlier than the newest record
// without a report: smaller adjustments of clocks are common.
const clockSlack = 1000

// ClockBehindError reports that the clock is earlier than the newest record of the log.
type ClockBehindError struct {
	By   time.Duration
	Last time.Time // of the newest record
}

func (e *ClockBehindError) Error() string {
	return fmt.Sprintf("copal: the newest record was written at %s, %s ahead of the clock: until then all records get that time, and moments are named by the numbers of records", e.Last.UTC().Format(time.RFC3339), e.By)
}

// ClockBehind returns by how much the clock is earlier than the newest record; 0 if it is not, or
// by less than a second.
func (l *Log) ClockBehind() time.Duration {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.clockBehindLocked(l.millisLocked())
}

func (l *Log) clockBehindLocked(now uint64) time.Duration {
	if l.LastTime <= now+clockSlack {
		return 0
	}
	return time.Duration(min(l.LastTime-now, uint64(1<<63-1)/uint64(time.Millisecond))) * time.Millisecond
}

// ReportClock reports if the clock is earlier than the newest record.
func (l *Log) ReportClock() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.watchClockLocked(l.millisLocked())
}

// watchClockLocked reports the clock once each time that it has become earlier than the newest
// record.
func (l *Log) watchClockLocked(now uint64) {
	by := l.clockBehindLocked(now)
	if by > 0 && !l.ahead {
		l.Owner.Report(&ClockBehindError{by, time.UnixMilli(int64(l.LastTime))})
	}
	l.ahead = by > 0
}
