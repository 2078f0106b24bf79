package table

import (
	"fmt"

	"github.com/copaldb/copal/codec"
)

const setGroup = "Set of a 3-field struct over an existing key, against sync.Map.Store"

// setLines: the cost of a persistent typed map against one in memory.
func setLines(s setting) []line {
	return []line{
		setLine(s, codec.Binary, 1, atMost(1.0).dreaming(0.7)),
		setLine(s, codec.Binary, many, atMost(1.3).dreaming(0.7)),
		setLine(s, codec.JSON, 1, atMost(1.6).dreaming(0.7)),
		setLine(s, codec.JSON, many, goal{}),
	}
}

func setLine(s setting, c codec.Codec, workers int, g goal) line {
	return line{
		name:  fmt.Sprintf("set/%s/%s/%d", c.Name(), count(s.keys), workers),
		group: setGroup,
		rows: []versus{{
			title: fmt.Sprintf("%s, %s keys, %s", c.Name(), count(s.keys), goroutines(workers)),
			ours:  "copal", theirs: []string{"sync.Map"}, metric: perOp, goal: g,
		}},
		setup: func(e *env) ([]side, error) {
			keys := makeKeys(s.keys)
			kept, err := openCopal[Person](e, "store", c)
			if err != nil {
				return nil, err
			}
			plain, order := newSyncMap[Person](), shuffled(s.keys, s.ops)
			return []side{
				setSide("copal", kept, keys, order, workers),
				setSide("sync.Map", plain, keys, order, workers),
			}, fill(keys, personOf, kept, plain)
		},
	}
}

// setSide overwrites keys with their values of the round.
func setSide(name string, m Map[Person], keys []string, order []int32, workers int) side {
	w := workload{
		name: name, workers: workers, order: order,
		loop: func(round int, part []int32) error {
			for _, i := range part {
				if err := m.Set(keys[i], personOf(i, round)); err != nil {
					return err
				}
			}
			return nil
		},
		check: func(round int) error { return holds(m, keys, spots(order), personOf, round) },
	}
	return w.side()
}
