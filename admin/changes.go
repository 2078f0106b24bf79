package admin

import (
	"bytes"
	"context"

	"github.com/copaldb/copal"
)

// Changes counts how often each entry with a key in [from, to) has changed between two snapshots of
// db, of which then is the older one. nil is no bound. The returned function gives the number for a
// key in [from, to). A transaction that changes an entry counts once, and once more for each range
// with the key that it also deletes. A range deletion counts for all keys of the range, also where
// it found no entry.
//
// Changes reads the log between the two, and keeps the changed keys in memory. The errors are those
// of DB.Watch, such as copal.ErrHistoryLost.
func Changes(ctx context.Context, db *copal.DB, then, now *copal.Snapshot, from, to []byte) (of func(key []byte) int, err error) {
	counts, last := map[string]int{}, map[string]uint64{}
	var ranges []copal.Change
	for c, err := range db.Watch(ctx, copal.WithAfter(then.Seq()), copal.WithUntil(now.Seq())) {
		switch {
		case err != nil:
			return nil, err
		case c.Range:
			ranges = append(ranges, c)
		case bytes.Compare(c.Key, from) >= 0 && (to == nil || bytes.Compare(c.Key, to) < 0):
			if key := string(c.Key); last[key] != c.Seq { // of a transaction there may be several elements
				counts[key]++
				last[key] = c.Seq
			}
		}
	}
	return func(key []byte) int {
		n := counts[string(key)]
		for i := range ranges {
			if ranges[i].Covers(key) {
				n++
			}
		}
		return n
	}, nil
}
