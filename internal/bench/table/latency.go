package table

import (
	"fmt"
	"slices"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/bench/rivals"
)

var (
	latencyP50  = metric{"p50", nanoseconds}
	latencyP99  = metric{"p99", nanoseconds}
	latencyP999 = metric{"p99.9", nanoseconds}
	latencyMax  = metric{"max", nanoseconds}
)

// latencyLines: how long single writes take, one after the other, while syncs go on beside them.
func latencyLines(s setting) []line {
	keys, others := min(s.keys, 10_000), append(slices.Clone(s.rivals.Stores), rivals.Bbolt)
	l := line{
		name:  fmt.Sprintf("latency/%s/1", count(keys)),
		group: fmt.Sprintf("Latency of writes of %d B, 1 goroutine, copal syncing every 100 ms, the others never", valueBytes),
		setup: func(e *env) (sides []side, err error) {
			keys, order := asBytes(makeKeys(keys)), shuffled(keys, 1<<16)
			took := make([]time.Duration, 0, 1<<23) // for all sides, since they run in turn
			err = e.eachFilled(append([]rivals.Engine{syncing}, others...), false, keys, valueBytes, func(engine rivals.Engine, store rivals.Store) {
				sides = append(sides, latencySide(engine.Name, store, keys, order, s.latency, took))
			})
			return sides, err
		},
	}
	for _, m := range []metric{latencyP50, latencyP99, latencyP999, latencyMax} {
		l.rows = append(l.rows, versus{
			title: fmt.Sprintf("%s, %s keys", m.name, count(keys)),
			ours:  "copal", info: namesOf(others, ""), metric: m,
		})
	}
	return []line{l}
}

// syncing is copal with a sync interval that is shorter than a round.
var syncing = rivals.Engine{Name: rivals.Copal.Name, Open: func(dir string, durable bool) (rivals.Store, error) {
	return rivals.OpenCopal(dir, durable, copal.WithSyncInterval(100*time.Millisecond))
}}

// latencySide writes for a time, and takes the time of each write as that from the end of
// the one before. It notes them in took, within its capacity.
func latencySide(name string, s rivals.Store, keys [][]byte, order []int32, span time.Duration, took []time.Duration) side {
	return side{name, func(round int) (figures, error) {
		value := newBlob(valueBytes)
		took := took[:0]
		start := time.Now()
		for last := start; last.Sub(start) < span && len(took) < cap(took); {
			i := order[len(took)%len(order)]
			value.mark(i, round)
			if err := s.Put(keys[i], value); err != nil {
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
