package table

import (
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/codec"
)

var (
	perSet = metric{"allocations per Set", allocations}
	perGet = metric{"allocations per Get", allocations}
)

// allocLines: the garbage of a call.
func allocLines(setting) []line {
	return []line{{
		name:  "allocs",
		group: "Allocations, 3-field struct, binary, 1 goroutine",
		once:  true,
		rows: []versus{
			{title: "Set over an existing key", ours: "copal", metric: perSet, goal: valueUpTo(1)},
			{title: "Get of a value in the cache", ours: "copal", metric: perGet, goal: valueUpTo(0)},
			{title: "  sync.Map.Store", ours: "sync.Map", metric: perSet},
			{title: "  sync.Map.Load", ours: "sync.Map", metric: perGet},
		},
		setup: func(e *env) ([]side, error) {
			m, err := openCopal[Person](e, "store", codec.Binary)
			if err != nil {
				return nil, err
			}
			plain, keys := newSyncMap[Person](), makeKeys(1000)
			return []side{allocSide("copal", m, keys), allocSide("sync.Map", plain, keys)}, fill(keys, personOf, m, plain)
		},
	}}
}

// allocSide counts over all keys, so that rare allocations show as well.
func allocSide(name string, m Map[Person], keys []string) side {
	return side{name, func(int) (figures, error) {
		var failed atomic.Int64
		everyKey := func(f func(i int32) bool) float64 {
			return testing.AllocsPerRun(10, func() {
				for i := range keys {
					if !f(int32(i)) {
						failed.Add(1)
					}
				}
			}) / float64(len(keys))
		}
		gets := everyKey(func(i int32) bool {
			v, ok := m.Get(keys[i])
			return ok && v.Age == int(i)
		})
		sets := everyKey(func(i int32) bool { return m.Set(keys[i], personOf(i, 1)) == nil })
		if n := failed.Load(); n > 0 {
			return nil, wrong(int32(n), "of that many something else", "what was written")
		}
		return figures{perSet: sets, perGet: gets}, holds(m, keys, shuffled(len(keys), 100), personOf, 1)
	}}
}
