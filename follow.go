package copal

import "time"

// Refresh returns when a store that was opened with ReadOnly shows every write that any process has
// acknowledged before the call; by itself it shows them a moment later. For other stores there is
// nothing to do.
func (db *DB) Refresh() error { return db.store.Refresh() }

// WithFollowInterval is the time between two looks of a ReadOnly store at what the process that writes
// has written. The default is 50 ms. A longer one costs an idle process less, and shows writes later;
// see also DB.Refresh. d must be positive.
func WithFollowInterval(d time.Duration) Option {
	return storeOption(func(c *config) { c.followEvery = d })
}
