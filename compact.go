package copal

import (
	"context"
	"time"

	"github.com/copaldb/copal/internal/compaction"
)

// The log keeps every record until compaction gives back the space of those that were overwritten or deleted. That
// happens in the background, without stopping readers or writers: when the log is twice as long as what
// counts in it, and at least one file of it longer (which has an eighth of what counts, from 16 to 64 MiB), and 32 MiB. Files are never changed but replaced by shorter ones, so a crash
// leaves the old or the new. Writers that outrun compaction are slowed down a little: when the log is longer than
// two and an eighth times what counts and half a file, and 48 MiB longer than what counts, each write waits, for a time that grows with the excess, a millisecond at most.
// Where the disk is short of room all that begins earlier, however little there is to be gained.

// Compact gives back, before it returns, all the space that can be given back: of what was overwritten, deleted or
// expired up to the call. Readers and writers go on meanwhile. It needs room for one new file at most,
// the smallest first, and none for files in which nothing counts any more: so after Delete it works on a full disk, too.
//
// What does not fit stays until there is room, on a disk that is full. That is no error if something else was given back, and ErrNoSpace if nothing was, or if what
// waits in memory cannot be written yet. A *CorruptError is of a file that is damaged and therefore stays, while the rest goes.
//
// progress, which may be nil, is told how many bytes of the log it has given back, of all that count for nothing. When
// ctx ends, so does Compact, with its error: what it has given back by then stays given back.
func (db *DB) Compact(ctx context.Context, progress func(done, total int64)) error {
	return compaction.Of(db.store).Compact(ctx, progress)
}

// StartAutoCompact lets the store compact its log in the background, beside what it does anyway, whenever it has more than ratio records for each
// entry (see Stats.Ratio), and at least 64 KiB to be gained. It looks as often as every says. The ratio
// is 1 at the least; 2 to 4 are sensible, for each record that stays is copied the more often the lower it is. A later call replaces the
// numbers of an earlier one; a ratio of 0 ends it.
func (db *DB) StartAutoCompact(every time.Duration, ratio float64) error {
	return compaction.Of(db.store).StartAutoCompact(every, ratio)
}
