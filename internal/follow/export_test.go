package follow

import "github.com/copaldb/copal/internal/seglog"

// Seams for the tests.

// Tailer returns another one after the follower has begun again.
func (f *Follower) Tailer() *seglog.Tailer { return f.tailer }

// MissARecord makes a follower begin again at its next look, as after an error.
func (f *Follower) MissARecord() { f.tailer.Missed = true }
