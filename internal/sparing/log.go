package sparing

import (
	"log/slog"
	"sync"
	"time"
)

// Every is the least time between two lines of a Log.
const Every = time.Minute

// Log is for events of one kind. The zero Log is ready.
type Log struct {
	Now func() time.Time // nil is time.Now

	mu     sync.Mutex
	logged time.Time
	more   int64
}

// Warn logs a message and its attributes, or counts it for the attribute more of the next line.
func (l *Log) Warn(to *slog.Logger, message string, attributes ...any) {
	now := time.Now
	if l.Now != nil {
		now = l.Now
	}
	l.mu.Lock()
	if at := now(); l.logged.IsZero() || at.Sub(l.logged) >= Every {
		attributes = append(attributes, "more", l.more)
		l.logged, l.more = at, 0
		l.mu.Unlock()
		to.Warn(message, attributes...)
		return
	}
	l.more++
	l.mu.Unlock()
}
