package store

import "sync/atomic"

// A view has everything that was acknowledged before some moment, and nothing later. The log has a moment: the number of its last record.
// What is set asynchronously has none, until it is written. So while a view is being opened it is written at once, and what was
// there before is written first. Then nothing is older than a record of the view, and is not in the view.
//
// Who sets asynchronously says so, in a flag that stays up, before it looks whether a view is being opened, with the lock of the key held. Who
// opens a view says so before it looks at the flag; when that is up, it waits until everybody has given back the lock who may have
// looked before, and flushes. So a store in which nothing is set asynchronously pays with a look.
type opening struct {
	views atomic.Int32 // that are being opened
	flag  atomic.Bool  // something may have been set asynchronously that is not written
}

// postponed notes that something was set asynchronously, and reports whether it is to be written now. The caller holds the lock of the
// key.
func (o *opening) postponed() (now bool) {
	if !o.flag.Load() {
		o.flag.Store(true)
	}
	return o.views.Load() > 0
}

// begin reports whether there is something to write first. The caller calls end when the view is there, or is not to be.
func (o *opening) begin() bool {
	o.views.Add(1)
	return o.flag.Load()
}

func (o *opening) end() { o.views.Add(-1) }

// flushed notes the outcome of a flush that began when the locks of all keys had been passed.
func (o *opening) flushed(s *Store, err error) {
	if err != nil {
		return
	}
	o.flag.Store(false)
	for _, c := range *s.attached.Load() {
		if c.table.Dirty() > 0 { // it came since, and could not be written at once
			o.flag.Store(true)
		}
	}
}
