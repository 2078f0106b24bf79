package keycodec

import (
	"fmt"
	"strconv"
	"time"
)

// timeLayout has a fixed width, so that the order of the bytes is the order of the instants.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// readTime returns the time that a key in timeLayout names. It reads the digits alone, and takes February 30 for
// March 1 or 2: its caller compares the key with the one spelling of that time. time.Parse would have every program
// that opens a store carry all of its layouts.
func readTime(key string) (t time.Time, ok bool) {
	if len(key) != len(timeLayout) {
		return t, false
	}
	ok = true
	digits := func(from, to int) int {
		n, err := strconv.Atoi(key[from:to])
		ok = ok && err == nil
		return n
	}
	t = time.Date(digits(0, 4), time.Month(digits(5, 7)), digits(8, 10),
		digits(11, 13), digits(14, 16), digits(17, 19), digits(20, 29), time.UTC)
	return t, ok
}

// timeSlow is the codec of time.Time: the instant, without location and monotonic reading.
func timeSlow[K comparable]() slow[K] {
	as := func(k K) time.Time { return any(k).(time.Time) }
	return slow[K]{
		append: func(dst []byte, k K) ([]byte, error) {
			t := as(k).UTC()
			if y := t.Year(); y < 0 || y > 9999 {
				return dst, fmt.Errorf("a time in the year %d is %w: the year has not four digits", y, ErrKey)
			}
			return t.AppendFormat(dst, timeLayout), nil
		},
		decode: func(b []byte) (K, error) {
			t, err := time.Parse(timeLayout, string(b))
			k, _ := any(t).(K)
			return k, err
		},
		compare: func(a, b K) int { return as(a).Compare(as(b)) },
	}
}
