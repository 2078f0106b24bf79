package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/copaldb/copal"
)

var (
	latencyP50  = metric{"p50", nanoseconds}
	latencyP99  = metric{"p99", nanoseconds}
	latencyP999 = metric{"p99.9", nanoseconds}
	latencyMax  = metric{"max", nanoseconds}
)

// latencyLines: how long single writes take, one after the other, while syncs go on beside them.
func latencyLines(s scale) []line {
	keys := min(s.keys, 10_000)
	l := line{
		name:  fmt.Sprintf("latency/%s/1", count(keys)),
		group: fmt.Sprintf("Latency of writes of %d B, 1 goroutine, copal syncing every 100 ms, the others never", valueBytes),
		setup: func(e *env) (sides []side, err error) {
			store, err := openSyncing(e)
			if err != nil {
				return nil, err
			}
			stores := map[string]byteStore{"copal": store}
			for _, o := range []opener{pebbleStore, bboltStore} {
				if stores[o.name], err = o.openIn(e, false); err != nil {
					return nil, err
				}
			}
			keys, order := asBytes(makeKeys(keys)), shuffled(keys, 1<<16)
			took := make([]time.Duration, 0, 1<<23) // for all sides, since they run in turn
			for _, name := range []string{"copal", "pebble", "bbolt"} {
				if err := fillBlobs(stores[name], keys, valueBytes); err != nil {
					return nil, err
				}
				sides = append(sides, latencySide(name, stores[name], keys, order, s.latency, took))
			}
			return sides, nil
		},
	}
	for _, m := range []metric{latencyP50, latencyP99, latencyP999, latencyMax} {
		l.rows = append(l.rows, versus{
			title: fmt.Sprintf("%s, %s keys", m.name, count(keys)),
			ours:  "copal", info: []string{"pebble", "bbolt"}, metric: m,
		})
	}
	return []line{l}
}

func openSyncing(e *env) (byteStore, error) {
	db, err := copal.Open(e.path("copal"), copal.WithSyncInterval(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	e.after(db.Close)
	return own{db}, nil
}

// latencySide writes for a time, and takes the time of each write as that from the end of
// the one before. It notes them in took, within its capacity.
func latencySide(name string, s byteStore, keys [][]byte, order []int32, span time.Duration, took []time.Duration) side {
	return side{name, func(round int) (figures, error) {
		value := newBlob(valueBytes)
		took := took[:0]
		start := time.Now()
		for last := start; last.Sub(start) < span && len(took) < cap(took); {
			i := order[len(took)%len(order)]
			value.mark(i, round)
			if err := s.put(keys[i], value); err != nil {
				return nil, err
			}
			now := time.Now()
			took = append(took, now.Sub(last))
			last = now
		}
		written := order[:min(len(took), len(order))]
		if err := holdsBlobs(s, keys, spots(written), valueBytes, round); err != nil {
			return nil, err
		}
		slices.Sort(took)
		return figures{
			latencyP50:  float64(percentile(took, 50)),
			latencyP99:  float64(percentile(took, 99)),
			latencyP999: float64(percentile(took, 99.9)),
			latencyMax:  float64(took[len(took)-1]),
		}, nil
	}}
}
