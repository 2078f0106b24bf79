package main

import (
	"fmt"
	"os"

	"github.com/copaldb/copal/codec"
)

// durableLines: writes that survive a power cut, one at a time and shared.
func durableLines(s scale) []line {
	own := func(workers int) string { return fmt.Sprintf("copal, %d", workers) }
	alone := []string{own(1)}
	return []line{{
		name:  "durable",
		group: "Durable set of 128 B, synced when it returns: SetFSync of a raw value",
		rows: []versus{
			{title: goroutines(1), ours: own(1), theirs: []string{"bare fdatasync"}, metric: perOp, goal: atLeast(0.9)},
			{title: goroutines(16) + ", against own 1", ours: own(16), theirs: alone, metric: perOp, goal: atLeast(10)},
			{title: goroutines(many) + ", against own 1", ours: own(many), theirs: alone, metric: perOp, goal: atLeast(40)},
			{
				title: goroutines(many), ours: own(many), theirs: []string{"pebble Sync"},
				info: []string{"bbolt Batch", "badger Sync", "buntdb Always"}, metric: perOp, goal: atLeast(1.5),
			},
		},
		setup: func(e *env) ([]side, error) { return durableSides(e, own) },
	}}
}

func durableSides(e *env, own func(workers int) string) ([]side, error) {
	s, keys := e.scale, makeKeys(e.scale.keys/100)
	bare, err := bareSide(e, shuffled(len(keys), 10*s.perWorker))
	if err != nil {
		return nil, err
	}
	m, err := openCopal[[]byte](e, "copal", codec.Bytes)
	if err != nil {
		return nil, err
	}
	sides := []side{bare}
	for _, workers := range []int{1, 16, many} {
		ops := max(workers, 10) * s.perWorker
		sides = append(sides, fsyncSide(own(workers), m, keys, shuffled(len(keys), ops), workers))
	}
	rivals := []struct {
		name string
		opener
		ops int // where writers do not share syncs they wait in turn
	}{
		{"pebble Sync", pebbleStore, many * s.perWorker},
		{"bbolt Batch", bboltStore, many * s.perWorker},
		{"badger Sync", badgerStore, many * s.perWorker},
		{"buntdb Always", buntStore, many},
	}
	for _, r := range rivals {
		store, err := r.openIn(e, true)
		if err != nil {
			return nil, err
		}
		sides = append(sides, durableSide(r.name, store, asBytes(keys), shuffled(len(keys), r.ops)))
	}
	return sides, nil
}

// bareSide is what a program does that has no store: a write at the end of a file, and a sync of its data.
func bareSide(e *env, order []int32) (side, error) {
	f, err := os.OpenFile(e.path("bare"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return side{}, err
	}
	e.after(f.Close)
	record := newBlob(recordBytes)
	w := workload{name: "bare fdatasync", workers: 1, order: order}
	w.loop = func(_ int, part []int32) error {
		for range part {
			if _, err := f.Write(record); err != nil {
				return err
			}
			if err := syncData(f); err != nil {
				return err
			}
		}
		return nil
	}
	return w.side(), nil
}

// valueBytes is the length of a value whose record has about recordBytes.
const valueBytes = recordBytes - 56

// fsyncSide writes values that tell key and round through a typed map.
func fsyncSide(name string, m copalMap[[]byte], keys []string, order []int32, workers int) side {
	w := workload{name: name, workers: workers, order: order}
	w.loop = func(round int, part []int32) error {
		value := newBlob(valueBytes)
		for _, i := range part {
			value.mark(i, round)
			if err := m.SetFSync(keys[i], value); err != nil {
				return err
			}
		}
		return nil
	}
	w.check = func(round int) error {
		want := newBlob(valueBytes)
		for _, i := range spots(order) {
			want.mark(i, round)
			if got, ok := m.get(keys[i]); !ok || string(got) != string(want) {
				return wrong(i, got, want)
			}
		}
		return nil
	}
	return w.side()
}

// durableSide is fsyncSide for another store.
func durableSide(name string, s byteStore, keys [][]byte, order []int32) side {
	w := workload{name: name, workers: many, order: order}
	w.loop = func(round int, part []int32) error { return putBlobs(s, keys, part, newBlob(valueBytes), round) }
	w.check = func(round int) error { return holdsBlobs(s, keys, spots(order), valueBytes, round) }
	return w.side()
}
