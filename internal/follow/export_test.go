package follow

import "github.com/copaldb/copal/internal/seglog"

// Seams for the tests.

// Tailer is another one after the follower has begun anew.
func (f *Follower) Tailer() *seglog.Tailer { return f.tailer }

// MissARecord makes a follower begin anew at its next look, as after an error.
func (f *Follower) MissARecord() { f.tailer.Missed = true }
