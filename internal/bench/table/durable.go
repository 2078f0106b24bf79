package table

import (
	"fmt"
	"os"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/bench/rivals"
)

// durableLines: writes that survive a power cut, one at a time and shared.
func durableLines(s setting) []line {
	own := func(workers int) string { return fmt.Sprintf("copal, %d", workers) }
	alone, others := []string{own(1)}, s.synced()
	shared := versus{title: goroutines(many), ours: own(many), metric: perOp, goal: atLeast(1.5)}
	for i, r := range others {
		if given := len(s.rivals.Stores); i < given || given == 0 {
			shared.theirs = append(shared.theirs, r.name)
		} else {
			shared.info = append(shared.info, r.name)
		}
	}
	return []line{{
		name:  "durable",
		group: "Durable set of 128 B, synced when it returns: SetFSync of a raw value",
		rows: []versus{
			{title: goroutines(1), ours: own(1), theirs: []string{"bare fdatasync"}, metric: perOp, goal: atLeast(0.9)},
			{title: goroutines(16) + ", against own 1", ours: own(16), theirs: alone, own: true, metric: perOp, goal: atLeast(10)},
			{title: goroutines(many) + ", against own 1", ours: own(many), theirs: alone, own: true, metric: perOp, goal: atLeast(40)},
			shared,
		},
		setup: func(e *env) ([]side, error) { return durableSides(e, s, own, others) },
	}}
}

// synced is a rival, each of whose writes is synced when it returns.
type synced struct {
	name   string
	engine rivals.Engine
	ops    int // where writers do not share syncs they wait in turn
}

func (s setting) synced() (list []synced) {
	for _, e := range s.rivals.Stores {
		list = append(list, synced{e.Name + " Sync", e, many * s.perWorker})
	}
	return append(list,
		synced{"bbolt Batch", rivals.Bbolt, many * s.perWorker},
		synced{"badger Sync", rivals.Badger, many * s.perWorker},
		synced{"buntdb Always", rivals.Bunt, many})
}

func durableSides(e *env, s setting, own func(workers int) string, others []synced) ([]side, error) {
	keys := makeKeys(s.keys / 100)
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
	for _, r := range others {
		store, err := e.open(r.engine, true)
		if err != nil {
			return nil, err
		}
		sides = append(sides, durableSide(r.name, store, asBytes(keys), shuffled(len(keys), r.ops)))
	}
	return sides, nil
}

// bareSide returns the side of a program without a store: a write at the end of a file, and a sync
// of its data.
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

// fsyncSide writes values that contain key and round through a typed map.
func fsyncSide(name string, m *copal.Map[string, []byte], keys []string, order []int32, workers int) side {
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
			if got, ok := m.Get(keys[i]); !ok || string(got) != string(want) {
				return wrong(i, got, want)
			}
		}
		return nil
	}
	return w.side()
}

// durableSide is fsyncSide for another store.
func durableSide(name string, s rivals.Store, keys [][]byte, order []int32) side {
	w := workload{name: name, workers: many, order: order}
	w.loop = func(round int, part []int32) error { return putBlobs(s, keys, part, newBlob(valueBytes), round) }
	w.check = func(round int) error { return holdsBlobs(s, keys, spots(order), valueBytes, round) }
	return w.side()
}
