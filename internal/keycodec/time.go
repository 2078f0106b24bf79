package keycodec

import (
	"fmt"
	"time"
)

// timeLayout has a fixed width, so that the order of the bytes is the order of the instants.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

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
