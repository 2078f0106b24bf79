package copal

import (
	"context"
	"time"

	"github.com/copaldb/copal/internal/compaction"
)

// The log keeps every record until compaction gives back the space of those that were overwritten or
// deleted. That happens in the background, without stopping readers or writers, when three things hold:
// the log is twice as long as its live records; it is longer than they are by one file, which has an
// eighth of them, from 16 to 64 MiB; and by 32 MiB. Files never change, but are replaced by shorter ones,
// so a crash leaves the old or the new.
//
// Writers that outrun compaction are slowed down. When the log is longer than two and an eighth times its
// live records and half a file, and 48 MiB longer than they are, each write waits, for a time that grows
// with the excess, a millisecond at most. Where the disk is short of room all that begins earlier,
// however little there is to be gained.

// Compact gives back, before it returns, all the space of what was overwritten, deleted or expired up to the
// call. Readers and writers go on meanwhile. It needs room for one new file at most, the smallest first, and
// none for files without a live record: so after deletions it works on a full disk, too.
//
// On a full disk, what does not fit stays until there is room. That is no error if something else was given
// back; it is ErrNoSpace if nothing was, or if asynchronous writes cannot be written yet. A *CorruptError
// names a damaged file, which stays, while the rest goes.
//
// progress, which may be nil, is told how many bytes of the log were given back, of all that can be. When
// ctx ends, so does Compact, with its error: what it has given back by then stays given back.
//
// A store is never longer after it: where less than 1 KiB can be given back, nothing is done.
func (db *DB) Compact(ctx context.Context, progress func(done, total int64)) error {
	return compaction.Of(db.store).Compact(ctx, progress)
}

// StartAutoCompact compacts the log in the background, beside the compaction that is always on, whenever
// the store has more than ratio records for each entry (see Stats.Ratio) and 64 KiB can be gained. every says
// how often it looks. The ratio is at least 1; 2 to 4 are sensible: the lower it is, the more often a live
// record is copied. A later call replaces the numbers of an earlier one; a ratio of 0 ends it.
func (db *DB) StartAutoCompact(every time.Duration, ratio float64) error {
	return compaction.Of(db.store).StartAutoCompact(every, ratio)
}
