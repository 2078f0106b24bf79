package copal

import (
	"context"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// farChange is a change that a driver has told.
type farChange struct {
	driver.Change
	old bool // of a watch with OldValues
}

// after is the entry, or element, after the change.
func (c *farChange) after() (*engine.Entry, error) {
	if c.ValueErr != nil {
		return nil, c.ValueErr
	}
	return &engine.Entry{Value: c.Value, Schema: c.Schema}, nil
}

// before is the entry before the change.
func (c *farChange) before() (*engine.Entry, error) {
	switch {
	case c.OldErr != nil:
		return nil, c.OldErr
	case !c.HasOld:
		return nil, ErrNotFound
	}
	return &engine.Entry{Value: c.Old, Schema: c.OldSchema}, nil
}

// watchFar is DB.Watch of a store with a driver.
func (db *DB) watchFar(ctx context.Context, w *watching) iter.Seq2[Change, error] {
	what := driver.Watching{Prefix: w.prefix, Key: w.key, Until: w.until, Old: w.old, Idle: w.idle}
	tells, is := db.driver.(driver.Feed)
	var err error
	switch {
	case !is:
		err = unsupported("feed of changes")
	case w.after != nil:
		what.After = *w.after
	default:
		what.After, err = tells.Now(ctx)
	}
	return func(yield func(Change, error) bool) {
		if err != nil {
			yield(Change{}, err)
			return
		}
		for c, err := range tells.Watch(ctx, what) {
			if err != nil {
				yield(Change{}, err)
				return
			}
			if !yield(db.farChange(&farChange{c, w.old}), nil) {
				return
			}
		}
	}
}

func (db *DB) farChange(f *farChange) Change {
	c := Change{Key: f.Key, To: f.To, Deleted: f.Deleted, Expired: f.Expired, Range: f.Range, Dropped: f.Dropped, Idle: f.Idle, More: f.More,
		Seq: f.Seq, Time: time.UnixMilli(int64(f.Time)), Collection: string(f.Collection), Element: f.Element, Created: f.Created, From: f.From, db: db, far: f}
	if f.Deadline != 0 {
		c.Deadline = time.UnixMilli(int64(f.Deadline))
	}
	return c
}
