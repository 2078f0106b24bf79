package table

import (
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// getLines: the cost of a read when the value is in the cache.
func getLines(s setting) []line {
	group := "Get of a 3-field struct, every value in the cache, against sync.Map.Load"
	info := []string{"map+RWMutex"}
	for _, m := range s.rivals.Maps {
		info = append(info, m.Name)
	}
	var lines []line
	for _, n := range []int{s.keys, s.manyKeys} {
		for _, workers := range []int{1, many} {
			l := getLine(s, n, workers, atMost(0.7).dreaming(0.5), info...)
			l.name, l.group = "get/hit/"+l.name, group
			lines = append(lines, l)
		}
	}
	return lines
}

// getLine reads n keys in random order, after a round that reads them all.
func getLine(s setting, n, workers int, g goal, info ...string) line {
	return line{
		name: fmt.Sprintf("binary/%s/%d", count(n), workers),
		full: n > fullScale.keys,
		rows: []versus{{
			title: fmt.Sprintf("binary, %s keys, %s", count(n), goroutines(workers)),
			ours:  "copal", theirs: []string{"sync.Map"}, info: info, metric: perOp, goal: g,
		}},
		setup: func(e *env) ([]side, error) { return getSides(e, s, n, workers, nil, info) },
	}
}

func getSides(e *env, s setting, n, workers int, opts []copal.Option, info []string) (sides []side, err error) {
	kept, err := openCopal[Person](e, "store", codec.Binary, opts...)
	if err != nil {
		return nil, err
	}
	maps := map[string]Map[Person]{
		"copal": kept, "sync.Map": newSyncMap[Person](), "map+RWMutex": newLockedMap[Person](),
	}
	for _, m := range s.rivals.Maps {
		maps[m.Name] = m.New()
	}
	keys, order := makeKeys(n), shuffled(n, s.ops)
	for _, name := range append([]string{"copal", "sync.Map"}, info...) {
		if err := fill(keys, personOf, maps[name]); err != nil {
			return nil, err
		}
		sides = append(sides, getSide(name, maps[name], keys, order, workers))
	}
	return sides, holds(kept, keys, shuffled(n, n), personOf, 0)
}

// getSide checks the number in each value, which is the number of its key.
func getSide(name string, m Map[Person], keys []string, order []int32, workers int) side {
	w := workload{name: name, workers: workers, order: order}
	w.loop = func(_ int, part []int32) error {
		for _, i := range part {
			if v, ok := m.Get(keys[i]); !ok || v.Age != int(i) {
				return wrong(i, v, personOf(i, 0))
			}
		}
		return nil
	}
	w.check = func(int) error { return holds(m, keys, spots(order), personOf, 0) }
	return w.side()
}
