package store

import (
	"sync"

	"github.com/copaldb/copal/internal/record"
)

// What the tests need that stand outside of the package, because they use a room above it.

// MissARecord makes a follower begin anew at its next look, as after an error.
func MissARecord(s *Store) { s.follower.tailer.Missed = true }

// LockOf is the lock of a raw key.
func LockOf(s *Store, key []byte) sync.Locker {
	return s.lockOf(s.spaces[0].route(record.Value, key).hash(key))
}
