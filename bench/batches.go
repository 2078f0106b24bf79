package main

import (
	"fmt"
	"runtime"

	"github.com/copaldb/copal"
	"github.com/dgraph-io/badger/v4"
	bolt "go.etcd.io/bbolt"
)

// batchLines: many entries at once, all or nothing.
func batchLines(s scale) []line {
	var lines []line
	for _, durable := range []bool{false, true} {
		name, title := "process", "not synced"
		if durable {
			name, title = "power", "synced"
		}
		lines = append(lines, line{
			name:  "batch/" + name,
			group: fmt.Sprintf("Batches of %d existing keys of 128 B, a key", batchSize),
			rows: []versus{{title: title, ours: "copal", theirs: []string{"bbolt", "badger", "pebble"}, metric: perOp,
				goal: atLeast(1.5)}},
			setup: func(e *env) ([]side, error) { return batchSides(e, s, durable) },
		})
	}
	return lines
}

func batchSides(e *env, s scale, durable bool) (sides []side, err error) {
	const bytes = 128
	keys, order := asBytes(makeKeys(s.keys)), shuffled(s.keys, max(s.slowOps, batchSize))
	err = e.eachFilled(durable, keys, bytes, opener{"copal", openOwnBatches(durable)}, func(name string, store byteStore) {
		w := workload{name: name, workers: 1, order: order}
		w.loop = func(round int, part []int32) error {
			value := newBlob(bytes)
			return fillBytes(store, len(part), func(i int) ([]byte, []byte) {
				value.mark(part[i], round)
				return keys[part[i]], value
			})
		}
		w.check = func(round int) error { return holdsBlobs(store, keys, spots(order), bytes, round) }
		sides = append(sides, w.side())
	})
	return sides, err
}

// ownBatches is a store of ours that takes entries by batches, of which it has one, as pebble has a pool of them.
type ownBatches struct {
	own
	b *copal.Batch
}

func openOwnBatches(durable bool) func(dir string, _ bool) (byteStore, error) {
	d := copal.Write
	if durable {
		d = copal.FSync
	}
	return func(dir string, _ bool) (byteStore, error) {
		db, err := copal.Open(dir)
		if err != nil {
			return nil, err
		}
		return ownBatches{own{db}, db.Raw().With(d).Batch()}, nil
	}
}

func (s ownBatches) batch(n int, entry func(i int) (key, value []byte)) error {
	for i := range n {
		s.b.Set(entry(i))
	}
	return s.b.Commit()
}

// rawViewLines: values that are lent for the time of a call, against what a copy costs elsewhere; and beside
// what it costs to be lent a value there.
func rawViewLines(s scale) []line {
	var lines []line
	for _, bytes := range rawSizes {
		n := rawKeys(s, bytes)
		order := shuffled(n, s.ops/6)
		lent := func(name string) string { return name + ", lent" }
		lines = append(lines, line{
			name:  fmt.Sprintf("raw-view/%dB/%s/1", bytes, count(n)),
			group: "ViewValue of raw bytes, lent, against the best Get of bbolt, badger and pebble",
			rows: []versus{{
				title: fmt.Sprintf("%s, %s keys, 1 goroutine", size(bytes), count(n)),
				ours:  "copal", theirs: []string{"bbolt", "badger", "pebble"}, info: []string{lent("bbolt"), lent("badger"), lent("pebble")}, metric: perOp, goal: atLeast(5),
			}},
			setup: func(e *env) (sides []side, err error) {
				keys := asBytes(makeKeys(n))
				err = e.eachFilled(false, keys, bytes, ownStore, func(name string, store byteStore) {
					if name == ownStore.name {
						sides = append(sides, rawViewSide(name, store, keys, bytes, order))
						return
					}
					sides = append(sides, rawGetSide(name, store, keys, bytes, order), rawViewSide(lent(name), store, keys, bytes, order))
				})
				return sides, err
			},
		})
	}
	return lines
}

// viewOf is a function that is lent the value under a key.
func viewOf(s byteStore) func(key []byte, f func(value []byte) error) error {
	switch s := s.(type) {
	case boltDB:
		return func(key []byte, f func([]byte) error) error {
			return s.db.View(func(tx *bolt.Tx) error { return f(tx.Bucket(bucket).Get(key)) })
		}
	case badgerDB:
		return func(key []byte, f func([]byte) error) error {
			return s.db.View(func(tx *badger.Txn) error {
				item, err := tx.Get(key)
				if err != nil {
					return err
				}
				return item.Value(f)
			})
		}
	case pebbleDB:
		return func(key []byte, f func([]byte) error) error {
			found, closer, err := s.db.Get(key)
			if err != nil {
				return err
			}
			defer closer.Close()
			return f(found)
		}
	}
	return s.(own).db.Raw().View
}

func rawViewSide(name string, s byteStore, keys [][]byte, bytes int, order []int32) side {
	view := viewOf(s)
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

// rawAllocLines: what raw reads and writes leave to the garbage collector, goroutines of the stores included.
func rawAllocLines(s scale) []line {
	var lines []line
	names := []string{"copal", "bbolt", "badger", "pebble"}
	for _, bytes := range rawSizes {
		l := line{name: fmt.Sprintf("raw-allocs/%dB", bytes), group: "Allocations of raw bytes, a call, of Get and Put", once: true}
		for _, name := range names {
			get, put := fmt.Sprintf("%s, %s, Get", size(bytes), name), fmt.Sprintf("%s, %s, Put", size(bytes), name)
			l.rows = append(l.rows, versus{title: get, ours: name, metric: getBytes}, versus{title: get + ", mallocs", ours: name, metric: getAllocs},
				versus{title: put, ours: name, metric: putBytes}, versus{title: put + ", mallocs", ours: name, metric: putAllocs})
		}
		l.setup = func(e *env) (sides []side, err error) {
			n := min(rawKeys(s, bytes), 5000)
			keys := asBytes(makeKeys(n))
			err = e.eachFilled(false, keys, bytes, ownStore, func(name string, store byteStore) {
				sides = append(sides, rawAllocSide(name, store, keys, bytes))
			})
			return sides, err
		}
		lines = append(lines, l)
	}
	return lines
}

func rawAllocSide(name string, s byteStore, keys [][]byte, bytes int) side {
	order := shuffled(len(keys), len(keys))
	return side{name, func(round int) (figures, error) {
		gets, getMallocs, err := allocated(len(order), func() error {
			for _, i := range order {
				if v, err := s.get(keys[i]); err != nil || len(v) != bytes {
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

// allocated is what f allocates, divided by n.
func allocated(n int, f func() error) (bytes, mallocs float64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n), float64(after.Mallocs-before.Mallocs) / float64(n), err
}
