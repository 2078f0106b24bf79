// Package driver is what a typed map asks of a store that is not the engine: one on another machine.
//
// All is in bytes. Keys are whole: the escaped name of the map, a colon, and the key's canonical bytes. Values
// are as the codec of the map has encoded them. A driver keeps its own time: what has expired is not there.
package driver

import (
	"context"
	"errors"
	"iter"

	"github.com/copaldb/copal/internal/engine"
)

// Driver keeps entries. It is safe for concurrent use. Calls that wait end with ctx, with its error.
type Driver interface {
	// Get returns the entry under key; the error is engine.ErrNotFound if there is none.
	Get(ctx context.Context, key []byte) (Entry, error)

	// Write sets or deletes one entry, and reports whether there was one. It does not keep what w points to.
	Write(ctx context.Context, w *Write) (existed bool, err error)

	// Redate gives an entry another deadline, 0 for none; the error is engine.ErrNotFound if there is no entry.
	Redate(ctx context.Context, key []byte, deadline uint64, d engine.Durability) error

	// Entries yields the entries whose keys begin with prefix, in no order, without their values if they are
	// not asked for. One that is there throughout is yielded once.
	Entries(ctx context.Context, prefix []byte, values bool) iter.Seq2[Entry, error]

	// DeleteRange deletes all entries in a range, as one write.
	DeleteRange(ctx context.Context, r engine.Range, d engine.Durability) error

	// Len is the number of entries whose keys begin with prefix.
	Len(ctx context.Context, prefix []byte) (int, error)

	// Sync returns when every write before the call is on a disk.
	Sync(ctx context.Context) error

	// Close ends the use of the driver.
	Close() error
}

// Sorted is a driver that knows the order of keys.
type Sorted interface {
	// InOrder yields the entries in a range, in the order of that, or the other way round if down.
	InOrder(ctx context.Context, r engine.Range, down, values bool) iter.Seq2[Entry, error]
}

// Entry is an entry as a driver has it. Its bytes belong to who gets it.
type Entry struct {
	Key, Value []byte
	Deadline   uint64 // in Unix milliseconds, 0 for none
	Version    any    // tells this state of the entry from others, to the driver alone
}

// Write is a write of one entry. Its durability is never engine.Memory.
type Write struct {
	Key, Value []byte
	Delete     bool
	Deadline   uint64
	Durability engine.Durability

	// Unless If is nil, nothing is written and the error is ErrConflict if the entry is not the one that Get
	// has returned, or if there is one though Get has found none, and If is the zero Entry.
	If *Entry
}

// ErrConflict says that the entry is not the one that was read.
var ErrConflict = errors.New("copal: the entry was written meanwhile")
