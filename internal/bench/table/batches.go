package table

import (
	"fmt"
	"runtime"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// batchLines: many entries at once, all or nothing.
func batchLines(s setting) []line {
	var lines []line
	for _, durable := range []bool{false, true} {
		name, title := "process", "not synced"
		if durable {
			name, title = "power", "synced"
		}
		lines = append(lines, line{
			name:  "batch/" + name,
			group: fmt.Sprintf("Batches of %d existing keys of 128 B, a key", rivals.BatchSize),
			rows: []versus{{title: title, ours: "copal", theirs: namesOf(s.stores(), ""), metric: perOp,
				goal: atLeast(1.5)}},
			setup: func(e *env) ([]side, error) { return batchSides(e, s, durable) },
		})
	}
	return lines
}

func batchSides(e *env, s setting, durable bool) (sides []side, err error) {
	const bytes = 128
	keys, order := asBytes(makeKeys(s.keys)), shuffled(s.keys, max(s.slowOps, rivals.BatchSize))
	err = e.eachFilled(withCopal(s.stores()), durable, keys, bytes, func(engine rivals.Engine, store rivals.Store) {
		w := workload{name: engine.Name, workers: 1, order: order}
		w.loop = func(round int, part []int32) error {
			value := newBlob(bytes)
			return rivals.Fill(store, len(part), func(i int) ([]byte, []byte) {
				value.mark(part[i], round)
				return keys[part[i]], value
			})
		}
		w.check = func(round int) error { return holdsBlobs(store, keys, spots(order), bytes, round) }
		sides = append(sides, w.side())
	})
	return sides, err
}

// rawViewLines: values that are lent for the time of a call, against copies elsewhere, and against
// lent values there.
func rawViewLines(s setting) []line {
	var lines []line
	for _, bytes := range rawSizes {
		n := rawKeys(s, bytes)
		order := shuffled(n, s.ops/6)
		lines = append(lines, line{
			name:  fmt.Sprintf("raw-view/%dB/%s/1", bytes, count(n)),
			group: "View of raw bytes, lent, against the best Get of " + s.best(),
			rows: []versus{{
				title: fmt.Sprintf("%s, %s keys, 1 goroutine", size(bytes), count(n)),
				ours:  "copal", theirs: namesOf(s.stores(), ""), info: namesOf(s.stores(), lent), metric: perOp, goal: atLeast(5),
			}},
			setup: func(e *env) (sides []side, err error) {
				keys := asBytes(makeKeys(n))
				err = e.eachFilled(withCopal(s.stores()), false, keys, bytes, func(engine rivals.Engine, store rivals.Store) {
					if own, is := store.(rivals.Own); is {
						sides = append(sides, rawViewSide(engine.Name, own.DB.Raw().View, keys, bytes, order))
						return
					}
					sides = append(sides, rawGetSide(engine.Name, store, keys, bytes, order), rawViewSide(engine.Name+lent, lends(store), keys, bytes, order))
				})
				return sides, err
			},
		})
	}
	return lines
}

// lent is the suffix of the names of sides that lend values.
const lent = ", lent"

// viewer lends the value under a key.
type viewer func(key []byte, f func(value []byte) error) error

// lends returns the viewer of a store of another kind.
func lends(s rivals.Store) viewer {
	return func(key []byte, f func(value []byte) error) error {
		return s.View(func(tx rivals.Tx) error {
			value, err := tx.Get(key)
			if err != nil {
				return err
			}
			return f(value)
		})
	}
}

func rawViewSide(name string, view viewer, keys [][]byte, bytes int, order []int32) side {
	w := workload{name: name, workers: 1, order: order}
	w.loop = func(_ int, part []int32) error {
		for _, i := range part {
			if err := view(keys[i], func(v []byte) error {
				if keyOf(v, bytes) != i {
					return wrong(i, fmt.Sprintf("%d bytes of another", len(v)), "others")
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}
	return w.side()
}

var (
	getBytes  = metric{"bytes allocated per Get", bytesUnit}
	getAllocs = metric{"allocations per Get", allocations}
	putBytes  = metric{"bytes allocated per Put", bytesUnit}
	putAllocs = metric{"allocations per Put", allocations}
)

// rawAllocLines: the garbage of raw reads and writes, goroutines of the stores included.
func rawAllocLines(s setting) []line {
	var lines []line
	engines := withCopal(s.stores())
	for _, bytes := range rawSizes {
		l := line{name: fmt.Sprintf("raw-allocs/%dB", bytes), group: "Allocations of raw bytes, a call, of Get and Put", once: true}
		for _, name := range namesOf(engines, "") {
			get, put := fmt.Sprintf("%s, %s, Get", size(bytes), name), fmt.Sprintf("%s, %s, Put", size(bytes), name)
			l.rows = append(l.rows, versus{title: get, ours: name, metric: getBytes}, versus{title: get + ", mallocs", ours: name, metric: getAllocs},
				versus{title: put, ours: name, metric: putBytes}, versus{title: put + ", mallocs", ours: name, metric: putAllocs})
		}
		l.setup = func(e *env) (sides []side, err error) {
			n := min(rawKeys(s, bytes), 5000)
			keys := asBytes(makeKeys(n))
			err = e.eachFilled(engines, false, keys, bytes, func(engine rivals.Engine, store rivals.Store) {
				sides = append(sides, rawAllocSide(engine.Name, store, keys, bytes))
			})
			return sides, err
		}
		lines = append(lines, l)
	}
	return lines
}

func rawAllocSide(name string, s rivals.Store, keys [][]byte, bytes int) side {
	order := shuffled(len(keys), len(keys))
	return side{name, func(round int) (figures, error) {
		gets, getMallocs, err := allocated(len(order), func() error {
			for _, i := range order {
				if v, err := s.Get(keys[i]); err != nil || len(v) != bytes {
					return wrong(i, len(v), err)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		value := newBlob(bytes)
		puts, putMallocs, err := allocated(len(order), func() error { return putBlobs(s, keys, order, value, round+1) })
		if err != nil {
			return nil, err
		}
		return figures{getBytes: gets, getAllocs: getMallocs, putBytes: puts, putAllocs: putMallocs}, holdsBlobs(s, keys, spots(order), bytes, round+1)
	}}
}

// allocated returns the allocations of f, divided by n.
func allocated(n int, f func() error) (bytes, mallocs float64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n), float64(after.Mallocs-before.Mallocs) / float64(n), err
}
