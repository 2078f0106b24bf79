package copal

import (
	"time"

	"github.com/copaldb/copal/internal/engine"
)

// Snapshot is a store as it was when the snapshot was taken: all its maps, collections and raw keys, at
// one moment between two writes. users.At(s) is a map in it, and so is any other kind of entries. It
// stays so while others write, delete, compact and let entries expire, and it holds up nobody. It has
// what had been acknowledged when it was taken, SetAsync included, and not what SetInMemory has put
// over an entry. It is safe for concurrent use.
//
// While it is open the store keeps in memory, for each key that changes, where its old record stands,
// 80 to 140 bytes with the key; and on the disk the files that compaction would remove, as far as they
// are as old as the snapshot. Both are given back by Close, and Stats counts them. A transaction needs
// no snapshot. A snapshot survives neither Close of the store nor the process: for that there is
// Backup.
type Snapshot struct {
	db   *DB
	view *engine.View
}

// Snapshot takes a snapshot. It takes microseconds, whatever the size of the store, and longer only if
// SetAsync has left much to be written. Its error says that this could not be written, or is
// ErrClosed. Whoever takes a snapshot must close it.
func (db *DB) Snapshot() (*Snapshot, error) {
	v, err := db.store.OpenView()
	if err != nil {
		return nil, err
	}
	return &Snapshot{db, v}, nil
}

// Close gives back what is kept for the snapshot, of which every read fails with ErrClosed from then
// on. Calls after the first do nothing. The error is nil.
func (s *Snapshot) Close() error {
	s.view.Close()
	return nil
}

// Seq is the sequence number of the last record that is in the snapshot. Of two snapshots of a store
// the one with the higher number was taken later; with the same number they were taken with no write
// in between.
func (s *Snapshot) Seq() uint64 { return s.view.Seq() }

// Time is when the snapshot was taken. What expires later is in it for as long as it is open.
func (s *Snapshot) Time() time.Time { return time.UnixMilli(int64(s.view.Time())) }
