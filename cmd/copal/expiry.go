package main

import (
	"time"

	"github.com/copaldb/copal"
)

// expiry is when an entry expires, to the millisecond, nil for one that does not. The store tells the time that is
// left; a look at the clock before and after says from when on, and if the two are too far apart it is asked again.
func expiry(db *copal.DB, key []byte) (*time.Time, error) {
	for {
		before := time.Now().Round(0) // the wall clock, as the store
		left, err := db.TTL(key)
		if err != nil || left == 0 {
			return nil, err
		}
		if took := time.Now().Round(0).Sub(before); took < 0 || took >= time.Millisecond {
			continue
		}
		t := before.Add(left + time.Millisecond - 1).Truncate(time.Millisecond).UTC()
		return &t, nil
	}
}
