package table

import (
	"errors"
	"fmt"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

var (
	idleBytes   = metric{"bytes of log before Sync", bytesUnit}
	syncedBytes = metric{"bytes of log after Sync", bytesUnit}
)

// idleLines: how much of a storm of async writes over few keys reaches the disk within a long
// interval.
func idleLines(s setting) []line {
	few := min(s.keys/100, 1000)
	title := fmt.Sprintf("%s SetAsync over %s keys", count(s.mixOps), count(few))
	return []line{{
		name:  "disk/" + count(s.mixOps),
		group: "Growth of the log with a sync interval of an hour, binary, 1 goroutine",
		once:  true,
		rows: []versus{
			{title: title, ours: "copal", metric: idleBytes, goal: valueUpTo(0)},
			{title: "  after Sync", ours: "copal", metric: syncedBytes},
		},
		setup: func(e *env) ([]side, error) {
			m, err := openCopal[Person](e, "store", codec.Binary, copal.WithSyncInterval(time.Hour))
			if err != nil {
				return nil, err
			}
			keys, order := makeKeys(few), shuffled(few, s.mixOps)
			// The first write of a map in the life of a log begins a segment, and writes records
			// for map and type.
			if err := errors.Join(m.Set(keys[0], personOf(0, 1)), m.Sync()); err != nil {
				return nil, err
			}
			return []side{{"copal", func(int) (figures, error) { return growth(e, asyncMap[Person]{m}, keys, order) }}}, nil
		},
	}}
}

func growth(e *env, m asyncMap[Person], keys []string, order []int32) (figures, error) {
	dir := e.path("store")
	start, err := logSize(dir)
	if err != nil {
		return nil, err
	}
	for _, i := range order {
		if err := m.Set(keys[i], personOf(i, 1)); err != nil {
			return nil, err
		}
	}
	idle, err := logSize(dir)
	if err != nil {
		return nil, err
	}
	if err := m.Sync(); err != nil {
		return nil, err
	}
	synced, err := logSize(dir)
	if err != nil {
		return nil, err
	}
	f := figures{idleBytes: idle - start, syncedBytes: synced - start}
	return f, holds(m, keys, spots(order), personOf, 1)
}
