package main

import (
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// getLines: what a read costs when the value is in the cache.
func getLines(s scale) []line {
	group := "Get of a 3-field struct, every value in the cache, against sync.Map.Load"
	var lines []line
	for _, n := range []int{s.keys, s.manyKeys} {
		for _, workers := range []int{1, many} {
			l := getLine(s, n, workers, atMost(0.7).dreaming(0.5), "map+RWMutex", "xsync.Map")
			l.name, l.group = "get/hit/"+l.name, group
			lines = append(lines, l)
		}
	}
	return lines
}

// getLine reads n keys in random order, after a round that reads them all.
func getLine(s scale, n, workers int, g goal, info ...string) line {
	return line{
		name: fmt.Sprintf("binary/%s/%d", count(n), workers),
		full: n > fullScale.keys,
		rows: []versus{{
			title: fmt.Sprintf("binary, %s keys, %s", count(n), goroutines(workers)),
			ours:  "copal", theirs: []string{"sync.Map"}, info: info, metric: perOp, goal: g,
		}},
		setup: func(e *env) ([]side, error) { return getSides(e, n, workers, nil, info) },
	}
}

func getSides(e *env, n, workers int, opts []copal.Option, info []string) (sides []side, err error) {
	kept, err := openCopal[person](e, "store", codec.Binary, opts...)
	if err != nil {
		return nil, err
	}
	maps := map[string]aMap[person]{
		"copal": kept, "sync.Map": newSyncMap[person](), "map+RWMutex": newLockedMap[person](), "xsync.Map": newXsyncMap[person](),
	}
	keys, order := makeKeys(n), shuffled(n, e.scale.ops)
	for _, name := range append([]string{"copal", "sync.Map"}, info...) {
		if err := fill(keys, personOf, maps[name]); err != nil {
			return nil, err
		}
		sides = append(sides, getSide(name, maps[name], keys, order, workers))
	}
	return sides, holds(kept, keys, shuffled(n, n), personOf, 0)
}

// getSide checks the number in each value, which is the number of its key.
func getSide(name string, m aMap[person], keys []string, order []int32, workers int) side {
	w := workload{name: name, workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		for _, i := range part {
			if v, ok := m.get(keys[i]); !ok || v.Age != int(i) {
				return wrong(i, v, personOf(i, 0))
			}
		}
		return nil
	}
	w.check = func(int) error { return holds(m, keys, spots(order), personOf, 0) }
	return w.side()
}
