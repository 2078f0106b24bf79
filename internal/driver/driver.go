package driver

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/engine"
)

// Driver keeps entries. It is safe for concurrent use. A call that waits ends with ctx, and returns its error.
type Driver interface {
	// Get returns the entry under key, with its deadline if dated. The error is engine.ErrNotFound when there is none,
	// and a *engine.CollectionError when the key holds a collection.
	Get(ctx context.Context, key []byte, dated bool) (Entry, error)

	// Has reports whether key has an entry, a value or a collection.
	Has(ctx context.Context, key []byte) (bool, error)

	// Write sets or deletes one entry, and reports whether there was one if it deletes. It does not
	// keep w or its bytes.
	Write(ctx context.Context, w *Write) (existed bool, err error)

	// WriteAll sets and deletes entries, all or none; the If of each is nil. The error is errors.ErrUnsupported where
	// the driver cannot write these keys together.
	WriteAll(ctx context.Context, list []*Write) error

	// Redate gives an entry, a value or a collection, another deadline, 0 for none; FromNow is possible. The error is
	// engine.ErrNotFound when there is no entry.
	Redate(ctx context.Context, key []byte, deadline uint64, d engine.Durability) error

	// Deadline returns the deadline of an entry, a value or a collection, 0 for none. The error is engine.ErrNotFound
	// when there is no entry.
	Deadline(ctx context.Context, key []byte) (uint64, error)

	// Entries yields the entries whose keys begin with prefix, in no order, and their values if values is set. An
	// entry that exists throughout is yielded once. One that holds a collection has no value and a Type.
	Entries(ctx context.Context, prefix []byte, values bool) iter.Seq2[Entry, error]

	// DeleteRange deletes the entries in a range: as one write, unless the driver documents otherwise.
	DeleteRange(ctx context.Context, r engine.Range, d engine.Durability) error

	// Len returns the number of entries whose keys begin with prefix.
	Len(ctx context.Context, prefix []byte) (int, error)

	// Sync returns when every write that was acknowledged before the call is on a disk.
	Sync(ctx context.Context) error

	// Close ends the use of the driver.
	Close() error
}

// Entry is an entry as a driver has it. The caller owns its bytes.
type Entry struct {
	Key, Value []byte
	Type       engine.CollectionType // of the collection that the key holds, "" for a value
	Schema     uint64                // of the value, a number of Schemas; 0 without
	Deadline   uint64                // in Unix milliseconds, 0 for none
	Content    string                // the content type of the value, "" if none is known; only InOrder and a dated Get return it
}

// Write is a write of one entry. Its durability is never engine.Memory.
type Write struct {
	Key, Value []byte
	Schema     uint64
	Delete     bool
	Deadline   uint64 // 0 for none; FromNow is possible
	Content    string // a content type; a store without them leaves it out
	Durability engine.Durability

	// If, unless nil, is the entry that Get returned, dated: the driver writes only if the key still has that value
	// and schema or, if If is the zero Entry, still has no entry. Otherwise nothing is written, and the error is
	// ErrConflict. A Deadline that equals the one of If means that the deadline stays, whatever it has become.
	If *Entry
}

// FromNow is the bit of a deadline that is a time to live: the other bits are the milliseconds from the moment of the
// write on, by the clock of the machine that keeps the entry. Only a driver that is Clocked gets such deadlines.
const FromNow = 1 << 63

// Clocked is a driver whose entries expire by another clock than the one of this machine.
type Clocked interface {
	// Time returns the time by that clock, to the nearest milliseconds. It may be an estimate from an earlier answer.
	Time(ctx context.Context) (time.Time, error)
}

// ErrConflict is returned if the entry has changed since it was read.
var ErrConflict = errors.New("copal: the entry was written meanwhile")

// Sorted is a driver that knows the order of keys.
type Sorted interface {
	// InOrder yields the entries in a range in the order of the range, or the other way round if down.
	InOrder(ctx context.Context, r engine.Range, down, values bool) iter.Seq2[Entry, error]
}

// KeyOrders is a driver, which is Sorted, whose store knows the types of the keys of its maps.
type KeyOrders interface {
	// KeyOrders returns the order of the keys of each map for which it is known, by its name.
	KeyOrders(ctx context.Context) (map[string]string, error)
}

// Schemas is a driver whose store knows by which schema each value was encoded, as the engine does. Where it is
// missing, a value is decoded by the codec of its map and the type that the map has now.
type Schemas interface {
	SchemaNumber(engine.Schema) (uint64, error)
	Schema(number uint64) (engine.Schema, bool)
}

// Caching is a driver that may keep entries on this machine until they change.
type Caching interface {
	// GetKept is Get, undated, of an entry that may be cached. The caller must not change its
	// bytes. It may store the decoded value in made, where later calls find it until the entry
	// changes. made is nil for an entry that is not cached.
	GetKept(ctx context.Context, key []byte) (e Entry, made *atomic.Value, err error)
}

// Sessions is a driver that has snapshots and transactions.
type Sessions interface {
	// Snapshot begins a session that reads one moment, and never changes.
	Snapshot(ctx context.Context) (Session, error)

	// Begin begins a transaction, which only reads if readOnly.
	Begin(ctx context.Context, readOnly bool) (Session, error)
}

// Session is a view of the store at one moment, with the session's own writes. It is for one
// goroutine at a time, unless it is a snapshot. Its writes, whose durability means nothing, count
// when it commits.
type Session interface {
	Driver
	Sorted
	Whole

	// Commit makes the writes count, all of them or, with an error, none. The error is ErrConflict when something that
	// the session has read has changed: the caller may begin anew.
	Commit(ctx context.Context, d engine.Durability) error

	// Moment returns the sequence number and the time, in Unix milliseconds, of the moment that the
	// session reads.
	Moment() (seq, time uint64)

	// Close ends the session; without Commit none of its writes counts. Every later call is engine.ErrTxDone or, of a
	// snapshot, engine.ErrViewClosed.
	Close() error
}

// Feed is a driver that reports changes.
type Feed interface {
	// Now returns the sequence number of the last write.
	Now(ctx context.Context) (uint64, error)

	// Watch yields the changes after a sequence number, until ctx is done or the store has no more.
	// The last pair has the error, seglog.ErrHistoryLost if compaction has removed later changes.
	// With Until it ends without an error.
	Watch(ctx context.Context, what Watching) iter.Seq2[Change, error]
}

// Noticing is a driver that hears which keys change, but cannot promise to hear all.
type Noticing interface {
	// Listen begins to hear, until ctx is done. The error is errors.ErrUnsupported if the store
	// does not report them.
	Listen(ctx context.Context) (Notices, error)
}

// Notices are keys that have changed. They are for one goroutine.
type Notices interface {
	// Take returns the keys that were heard of since the last call. missed is true if others may have changed, too.
	Take() (keys map[string]struct{}, missed bool)

	// Wait returns when Take may have something to return, or with the error of ctx.
	Wait(ctx context.Context) error
}

// Maps is a driver whose store knows its maps.
type Maps interface {
	// Maps returns the names of the maps.
	Maps(ctx context.Context) ([]string, error)

	// DeclareMap makes a map of its entries, as admin.DeclareMap does: the store remembers it from its first write on.
	DeclareMap(ctx context.Context, name string) error
}

// Dumps is a driver that can move whole entries, as internal/rdb reads and writes them.
type Dumps interface {
	// Dump returns the dump of an entry. The error is engine.ErrNotFound when there is none.
	Dump(ctx context.Context, key []byte) ([]byte, error)

	// Restore sets the key to the result of Dump, with a deadline, 0 for none, and replaces its
	// entry.
	Restore(ctx context.Context, key, dump []byte, deadline uint64, d engine.Durability) error
}

// Informing is a driver whose servers have information about themselves.
type Informing interface {
	// Info returns the information of each server that takes writes, as names and values of its
	// own.
	Info(ctx context.Context) ([]map[string]string, error)
}

// Watching is the settings of Watch.
type Watching struct {
	Prefix []byte        // of the keys that are watched
	Key    []byte        // the only key that is watched, unless nil
	After  uint64        // the changes begin after this sequence number
	Until  *uint64       // the last sequence number, nil for no end
	Old    bool          // with the values before
	Idle   time.Duration // how often to report that there was no change, 0 for never
}

// Change is a change for package copal: see copal.Change. Times are in Unix milliseconds.
type Change struct {
	Key     []byte // of the entry, or the beginning of a Range
	To      []byte // the end of a Range, nil for none
	Deleted bool   // there is no entry, or no element, any more
	Expired bool   // it was deleted by its deadline
	Range   bool   // all entries with keys in the range were deleted
	Dropped bool   // the range is a map that was dropped
	Idle    bool   // no change: every change up to Seq has been yielded
	More    bool   // further changes follow with the same Seq

	Seq      uint64 // the sequence number by which the change counts
	Time     uint64 // of the change
	Deadline uint64 // of the entry, 0 for none

	Collection engine.CollectionType // "" if the change is not of a collection
	Element    []byte                // the changed element of the collection, nil for none
	From       []byte                // the key before a renaming, nil for none
	Created    bool                  // the collection is new

	Value     []byte                // of the entry or element
	Old       []byte                // Value before the change, with Watching.Old
	Schema    uint64                // of Value
	OldSchema uint64                // of Old
	HasOld    bool                  // there was an entry before
	ValueErr  error                 // why Value cannot be read, nil if it can
	OldErr    error                 // why Old cannot be read, nil if it can
	Covers    func(key []byte) bool // of a Range: whether it has the key
	Rest      []byte                // of a Range: with Key, the arguments of keyrange.Deleted
}
