package copal

import "time"

// Refresh returns when a ReadOnly store shows every write that any process acknowledged before the
// call. Without Refresh the store shows them within about the interval of WithFollowInterval. For
// other stores it does nothing.
func (db *DB) Refresh() error { return db.store.Refresh() }

// WithFollowInterval sets how often a ReadOnly store looks for new records of the writing process:
// every 50 ms by default. A longer interval costs an idle process less, and shows writes later; see
// also DB.Refresh. d must be positive.
func WithFollowInterval(d time.Duration) Option {
	return storeOption(func(c *config) { c.followEvery = d })
}
