package copal

import (
	"errors"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
)

// Errors of opening a store.
var (
	// ErrLocked: another process, or another DB of this one, has the store open for
	// writing. The text names the process.
	ErrLocked = seglog.ErrLocked
	// ErrVersion: a file was written by a newer version of copal.
	ErrVersion = seglog.ErrVersion
)

// Errors of reading and writing.
var (
	// ErrNotFound: there is no entry for the key.
	ErrNotFound = engine.ErrNotFound
	// ErrType: a type cannot be kept, or the bytes under a key do not fit the type
	// that is asked for. The text names the type and the key. It is not corruption.
	ErrType = engine.ErrType
	// ErrTooLarge: a key over 64 KiB, map name included, or a value over 1 GiB (256
	// MiB where addresses have 32 bits), encoded.
	ErrTooLarge = seglog.ErrTooLarge
	// ErrNoSpace: the disk is full. The write did not happen; writes succeed again
	// when there is room.
	ErrNoSpace = seglog.ErrNoSpace
	// ErrReadOnly: the store was opened with ReadOnly, or a write failed in a way
	// after which no write can be trusted until the store is opened again. In the
	// second case the error wraps its cause.
	ErrReadOnly = seglog.ErrReadOnly
	// ErrNested: the function of a Map.Update wrote, by other means, the key that it updates; or that of a DB.Update
	// wrote at all by other means than its transaction.
	ErrNested = engine.ErrNested
	// ErrSnapshot: a write by a handle that At has made. A snapshot does not change.
	ErrSnapshot = errors.New("copal: a snapshot does not change")
	// ErrTxDone: the function to which the transaction was handed has returned.
	ErrTxDone = engine.ErrTxDone
	// ErrTxReadOnly: a write in the function of DB.View.
	ErrTxReadOnly = engine.ErrTxReadOnly
	// ErrClosed: the store, the map, or the snapshot is closed.
	ErrClosed = seglog.ErrClosed
	// ErrSnapshotLost: a snapshot of a store that was opened with ReadOnly, and has fallen so far behind the
	// process that writes that it had to read the log anew.
	ErrSnapshotLost = engine.ErrViewLost
	// ErrHistoryLost: what DB.Watch was to tell is not in the log any more, for compaction has been there, or
	// is not in it yet.
	ErrHistoryLost = seglog.ErrHistoryLost
	// ErrCorrupt: bytes on the disk are not what was written. The error is a *CorruptError.
	ErrCorrupt = seglog.ErrCorrupt

	// ErrRebuilt: a file that is derived from the log was damaged or missing, and is made anew.
	// Nothing is lost. It is told to the error handler alone.
	ErrRebuilt = seglog.ErrRebuilt
)

// CorruptError says in which File, at which Offset, and for what Reason bytes cannot
// be what was written. errors.Is(err, ErrCorrupt) holds for it.
type CorruptError = seglog.CorruptError

// CollectionError is the error of a raw read, such as Get, of a key that holds not a value but a collection,
// whose Type it says: "hash", for instance. Scan passes it to the error handler and goes on. errors.Is(err,
// ErrType) holds for it.
type CollectionError = engine.CollectionError
