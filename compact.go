package copal

import (
	"context"

	"github.com/copaldb/copal/internal/compaction"
)

// The log keeps every record until compaction gives back the space of overwritten and deleted ones.
// It runs in the background, without stopping readers and writers, when the log
//
//   - is twice as long as its live records,
//   - is longer than they are by 32 MiB, and
//   - is longer than they are by one file, which has a sixty-fourth of them, from 16 to 64 MiB.
//
// It also runs when the log has some dozens of files more than its length asks for: each crash
// leaves one. It begins when the store is opened, if there is a reason then, and does not wait for
// a write. Close lets it go on for at most 100 ms. So a log stays short however short the lives of
// its processes are.
//
// A file never changes. Compaction replaces it by a shorter one, so a crash leaves the old or the new.
//
// Writers that outrun compaction are slowed down. This begins when the log is longer than two and
// an eighth times its live records and half a file, and 48 MiB longer than they are. Each write
// then waits for a time that grows with the excess, a millisecond at most. On a disk that is short
// of room, compaction and the slowing both begin earlier, however little space they gain.

// Compact gives back all the space of entries that were overwritten, deleted or expired before the
// call. Readers and writers go on meanwhile. It takes the smallest files first and needs room for
// at most one new file, and none for files without a live record: so after deletions it works on a
// full disk.
//
// On a full disk, files whose live records do not fit elsewhere stay until there is room. That is
// no error if some space was given back. Otherwise, or if asynchronous writes cannot be written
// yet, the error is ErrNoSpace. A damaged file stays, and the error is a *CorruptError that names
// it; the other files are compacted.
//
// progress, which may be nil, is called with the bytes of the log that were given back so far and
// the bytes that can be. When ctx ends, Compact returns its error; the space that was given back by
// then stays free.
//
// Compact never makes a store longer: where less than 1 KiB can be given back, it does nothing.
func (db *DB) Compact(ctx context.Context, progress func(done, total int64)) error {
	return compaction.Of(db.store).Compact(ctx, progress)
}
