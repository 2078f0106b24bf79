package copal

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/seglog"
)

// Errors of opening a store.
var (
	// ErrLocked: another process, or another DB of this one, has the store open for writing. The
	// text names the process.
	ErrLocked = seglog.ErrLocked
	// ErrUnfinished: the directory is being made by a restore, a repair or a first backup, which
	// was interrupted or is still running. The text names the work and its source. Running the same
	// work again completes the directory. After an interrupted import or copy the store opens, and
	// the error handler gets this error.
	ErrUnfinished = seglog.ErrUnfinished
	// ErrVersion: a newer version of copal wrote a file of the store.
	ErrVersion = seglog.ErrVersion
	// ErrCopied: the directory is a copy of a store that was not closed, and may lack writes that
	// were acknowledged there. AcceptCopy opens it. The system must say when a file was made, as
	// Linux does with ext4, XFS, btrfs and tmpfs; elsewhere such a copy opens.
	ErrCopied = seglog.ErrCopied
)

// Errors of reading and writing.
var (
	// ErrNotFound: the key has no entry.
	ErrNotFound = engine.ErrNotFound
	// ErrType: a type cannot be kept, or the bytes under a key do not fit the type that the caller
	// asked for. The text names the type and the key. It is not corruption.
	ErrType = engine.ErrType
	// ErrTooLarge: a key is longer than 64 KiB, map name included, or an encoded value longer than
	// 1 GiB (256 MiB where addresses have 32 bits).
	ErrTooLarge = seglog.ErrTooLarge
	// ErrNoSpace: the disk is full, or the memory that a server may use. The write did not happen;
	// writes succeed again when there is room.
	ErrNoSpace = seglog.ErrNoSpace
	// ErrReadOnly: the store was opened with ReadOnly, or a write failed in a way after which no
	// write can be trusted until the store is opened again. In the second case the error wraps its
	// cause.
	ErrReadOnly = seglog.ErrReadOnly
	// ErrNested: a write bypassed the update that it was made in. Within Map.Update, the key that
	// is being updated is written only through the Entry; within DB.Update, every write goes
	// through a handle of In.
	ErrNested = engine.ErrNested
	// ErrHandle: a handle is not valid, or does not support the call. For example, its snapshot or
	// transaction is nil or of another store, it combines At and In, or it asks for a batch in a
	// transaction. The text gives the reason. It is a mistake in the program.
	ErrHandle = errors.New("copal: invalid handle")
	// ErrSnapshot: a handle from At was used to write. A snapshot does not change.
	ErrSnapshot = errors.New("copal: a snapshot does not change")
	// ErrTxDone: a transaction was used after its function had returned.
	ErrTxDone = engine.ErrTxDone
	// ErrTxReadOnly: a transaction of DB.View was used to write.
	ErrTxReadOnly = engine.ErrTxReadOnly
	// ErrChanged: a transaction was to count only if a key is as it was in a snapshot, by Tx.Require,
	// and the key has changed. Nothing was written.
	ErrChanged = engine.ErrChanged
	// ErrClosed: the store, the map or the snapshot is closed.
	ErrClosed = seglog.ErrClosed
	// ErrSnapshotLost: a snapshot of a ReadOnly store can no longer be read. The store fell so far
	// back that it had to read the log from the beginning.
	ErrSnapshotLost = engine.ErrViewLost
	// ErrHistoryLost: DB.Watch, DB.AsOf or History was asked for records that the log does not
	// have. Compaction has removed them, or the log ends before them. WithHistory keeps a window of
	// the past.
	ErrHistoryLost = seglog.ErrHistoryLost
	// ErrCorrupt: bytes on the disk differ from those that were written. The error is a
	// *CorruptError.
	ErrCorrupt = seglog.ErrCorrupt

	// ErrUnknown: it is not known whether a write on another machine was made, because the
	// connection or the context ended before the answer came. The error wraps the cause. The write
	// is never sent a second time automatically; a caller may repeat it if that is harmless.
	ErrUnknown = errors.New("copal: the outcome of the write is unknown")
	// ErrUnavailable: a store on another machine did not carry out the call, and may do so later:
	// it loads its data, or the nodes of its cluster do not agree. The text gives the reason.
	ErrUnavailable = errors.New("copal: the server cannot be used now")
	// ErrDurability: the store cannot promise the durability that a write asks for, such as FSync
	// on a Redis server that keeps no log on its disk, or that waits for replicas. The text reports
	// whether the write was made all the same.
	ErrDurability = errors.New("copal: the store cannot promise that durability")

	// ErrRebuilt: a file derived from the log was damaged or missing, and is made again. Nothing is
	// lost. Only the error handler gets this error.
	ErrRebuilt = seglog.ErrRebuilt
)

// misuse is an ErrHandle with the reason.
type misuse string

func (e misuse) Error() string        { return "copal: " + string(e) }
func (e misuse) Is(target error) bool { return target == ErrHandle }

// absent is an ErrNotFound, and names the missing thing.
type absent string

func (e absent) Error() string        { return "copal: " + string(e) + " is not found" }
func (e absent) Is(target error) bool { return target == ErrNotFound }

// missing names the key of an ErrNotFound, with its map where it has one. The key is whole.
func (at *place) missing(err error, key []byte) error {
	if err != ErrNotFound {
		return err
	}
	if n := len(at.prefix); n > 0 && n <= len(key) {
		if name, err := keycodec.ParseName(at.prefix[:n-1]); err == nil {
			return absent(fmt.Sprintf("key %q of map %q", key[n:], name))
		}
	}
	return absent(fmt.Sprintf("key %q", key))
}

// missing names the collection of an ErrNotFound, and an element of it if that is not "".
func (c *Collection) missing(err error, element string) error {
	if err != ErrNotFound {
		return err
	}
	if element != "" {
		element += " of "
	}
	return absent(element + c.title())
}

// title returns the name of the collection in messages.
func (c *Collection) title() string { return fmt.Sprintf("%s %q", kindOf(c.of), c.key) }

// kindOf is the name of a type of collections for people.
func kindOf(of engine.CollectionType) string {
	if of == engine.SortedSetType {
		return "sorted set"
	}
	return string(of)
}

// CorruptError is the place of damage in a file, and the reason why its bytes cannot be valid.
// errors.Is(err, ErrCorrupt) holds for it.
//
//	type CorruptError struct {
//		File   string // path of the file
//		Offset int64  // of the first damaged byte
//		Reason string
//	}
type CorruptError = seglog.CorruptError

// CollectionError is the error of a raw read, such as Get, of a key that holds a collection instead
// of a value. A walk passes it to the error handler and goes on. errors.Is(err, ErrType) holds for
// it.
//
//	type CollectionError struct {
//		Key  []byte
//		Type string // "hash", "list", "set", "zset" or "stream"
//	}
type CollectionError = engine.CollectionError
