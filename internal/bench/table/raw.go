package table

import (
	"bytes"
	"fmt"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// rawSizes are the lengths of values in the lines of raw bytes.
var rawSizes = []int{128, 512, 4 << 10, 32 << 10}

// rawKeys returns the number of values of a size to keep: as many as in the other lines, unless
// that were too many bytes.
func rawKeys(s setting, bytes int) int {
	n := min(s.keys, s.rawBytes/bytes)
	if n >= 1000 {
		n -= n % 1000
	}
	return n
}

// rawGetLines: reads of raw bytes, copied, where every page is in memory.
func rawGetLines(s setting) []line {
	var lines []line
	for _, bytes := range rawSizes {
		reach := atLeast(3)
		switch {
		case bytes > 4<<10:
			reach = atLeast(1.2)
		case bytes > 512:
			reach = goal{sense: more}
		}
		l := rawLine(s, bytes, reach, rawGetSide, s.ops/6)
		l.name, l.group = "raw-get/"+l.name, "Get of raw bytes, copied, against the best of "+s.best()
		lines = append(lines, l)
	}
	return lines
}

// overwrites is the number of times that each key is written before it is read, in rawWrittenLines.
const overwrites = 10

// rawWrittenLines: reads of raw bytes, copied, of keys that were all overwritten many times just
// before. New values may not be in their place yet, and old ones wait for compaction.
func rawWrittenLines(s setting) []line {
	var lines []line
	for _, bytes := range []int{2 << 10, 4 << 10, 8 << 10, 32 << 10} {
		n := min(1000, rawKeys(s, bytes))
		l := line{
			name:  fmt.Sprintf("raw-get-written/%dB/%s/1", bytes, count(n)),
			group: "Get of raw bytes, copied, when each key was overwritten ten times just before, against bbolt",
			rows: []versus{{
				title: fmt.Sprintf("%s, %s keys, 1 goroutine", size(bytes), count(n)),
				ours:  "copal", theirs: []string{"bbolt"}, metric: perOp, goal: atLeast(1),
			}},
		}
		l.setup = func(e *env) (sides []side, err error) {
			keys, order := asBytes(makeKeys(n)), shuffled(n, s.slowOps)
			err = e.eachFilled(withCopal([]rivals.Engine{rivals.Bbolt}), false, keys, bytes, func(engine rivals.Engine, store rivals.Store) {
				sides = append(sides, rawWrittenSide(engine.Name, store, keys, bytes, order))
			})
			return sides, err
		}
		lines = append(lines, l)
	}
	return lines
}

// rawWrittenSide is rawGetSide of keys that are overwritten before each round.
func rawWrittenSide(name string, s rivals.Store, keys [][]byte, bytes int, order []int32) side {
	w := rawGetWork(name, s, keys, bytes, order)
	every := shuffled(len(keys), overwrites*len(keys))
	w.before = func(round int) error { return putBlobs(s, keys, every, newBlob(bytes), round) }
	w.check = func(round int) error { return holdsBlobs(s, keys, spots(order), bytes, round) }
	return w.side()
}

// rawPutLines: writes of raw bytes that no side syncs.
func rawPutLines(s setting) []line {
	var lines []line
	for _, bytes := range rawSizes {
		reach := atLeast(2).dreaming(5)
		if bytes > 4<<10 {
			reach = atLeast(1).dreaming(5)
		}
		l := rawLine(s, bytes, reach, rawPutSide, min(s.slowOps, s.rawBytes/8/bytes))
		l.name, l.group = "raw-put/"+l.name, "Put of raw bytes over an existing key, no sync, against the best of "+s.best()
		lines = append(lines, l)
	}
	return lines
}

type rawSide func(name string, s rivals.Store, keys [][]byte, bytes int, order []int32) side

func rawLine(s setting, bytes int, g goal, work rawSide, ops int) line {
	n := rawKeys(s, bytes)
	return line{
		name: fmt.Sprintf("%dB/%s/1", bytes, count(n)),
		rows: []versus{{
			title: fmt.Sprintf("%s, %s keys, 1 goroutine", size(bytes), count(n)),
			ours:  "copal", theirs: namesOf(s.stores(), ""), metric: perOp, goal: g,
		}},
		setup: func(e *env) (sides []side, err error) {
			keys, order := asBytes(makeKeys(n)), shuffled(n, ops)
			err = e.eachFilled(withCopal(s.stores()), false, keys, bytes, func(engine rivals.Engine, store rivals.Store) {
				sides = append(sides, work(engine.Name, store, keys, bytes, order))
			})
			return sides, err
		},
	}
}

// fillBlobs puts the value of round 0 under each key.
func fillBlobs(s rivals.Store, keys [][]byte, bytes int) error {
	value := newBlob(bytes)
	return rivals.Fill(s, len(keys), func(i int) ([]byte, []byte) {
		value.mark(int32(i), 0)
		return keys[i], value
	})
}

func rawGetSide(name string, s rivals.Store, keys [][]byte, bytes int, order []int32) side {
	return rawGetWork(name, s, keys, bytes, order).side()
}

func rawGetWork(name string, s rivals.Store, keys [][]byte, bytes int, order []int32) workload {
	w := workload{name: name, workers: 1, order: order}
	w.loop = func(_ int, part []int32) error {
		for _, i := range part {
			v, err := s.Get(keys[i])
			if err != nil {
				return err
			}
			if keyOf(v, bytes) != i {
				return wrong(i, fmt.Sprintf("%d bytes of another", len(v)), "others")
			}
		}
		return nil
	}
	w.check = func(int) error { return holdsBlobs(s, keys, spots(order), bytes, 0) }
	return w
}

func rawPutSide(name string, s rivals.Store, keys [][]byte, bytes int, order []int32) side {
	w := workload{name: name, workers: 1, order: order}
	w.loop = func(round int, part []int32) error { return putBlobs(s, keys, part, newBlob(bytes), round) }
	w.check = func(round int) error { return holdsBlobs(s, keys, spots(order), bytes, round) }
	return w.side()
}

// putBlobs writes the values of a round; the stores copy values that they keep before put returns.
func putBlobs(s rivals.Store, keys [][]byte, part []int32, value blob, round int) error {
	for _, i := range part {
		value.mark(i, round)
		if err := s.Put(keys[i], value); err != nil {
			return err
		}
	}
	return nil
}

// holdsBlobs checks every byte of some values.
func holdsBlobs(s rivals.Store, keys [][]byte, some []int32, size, round int) error {
	want := newBlob(size)
	for _, i := range some {
		got, err := s.Get(keys[i])
		if err != nil {
			return err
		}
		if want.mark(i, round); !bytes.Equal(got, want) {
			return wrong(i, fmt.Sprintf("%d other bytes", len(got)), fmt.Sprintf("those of round %d", round))
		}
	}
	return nil
}
