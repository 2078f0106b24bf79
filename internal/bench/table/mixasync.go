package table

import (
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

type asyncMap[V any] struct{ *copal.Map[string, V] }

func (m asyncMap[V]) Set(key string, v V) error { return m.SetAsync(key, v) }

// asyncMixLines: the mix with writes that reach the log later, and how long it takes until they are
// there.
func asyncMixLines(s setting) []line {
	against := func(title string, m metric) versus {
		return versus{
			title: title, ours: "copal", theirs: []string{"sync.Map"},
			metric: m, theirMetric: perOp, goal: atLeast(1.5).dreaming(1.6),
		}
	}
	return []line{{
		name:  fmt.Sprintf("mix/async/%s/%d", count(s.keys), many),
		group: mixGroup(s),
		rows: []versus{
			against(fmt.Sprintf("SetAsync, binary, %s", goroutines(many)), perOp),
			against("  and Sync at the end", perOpSynced),
		},
		setup: func(e *env) ([]side, error) {
			m, err := openCopal[item](e, "store", codec.Binary)
			if err != nil {
				return nil, err
			}
			kept, plain := asyncMap[item]{m}, newSyncMap[item]()
			keys, order := makeKeys(s.keys), mixedOrder(s)
			return []side{
				mixSide("copal", kept, keys, order, m.DB().Sync),
				mixSide("sync.Map", plain, keys, order, nil),
			}, fill(keys, itemOf, kept, plain)
		},
	}}
}
