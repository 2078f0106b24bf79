package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
)

var (
	openMoment   = metric{"time to open a moment", nanoseconds}
	versionLog   = metric{"bytes of log for each version", bytesUnit}
	undoTime     = metric{"time to undo", nanoseconds}
	versionBytes = float64(len(`user-00000001`) + len(`{"Name":"person 1000","Age":100000,"Score":5}`))
)

const (
	versions = 10 // of each key, where the past is read
	window   = 24 * time.Hour
)

// historyLines: the cost of a window of history, and of reading the past in it.
func historyLines(s setting) []line {
	return []line{setWithHistoryLine(s), momentLine(s), undoLine(s)}
}

func setWithHistoryLine(s setting) line {
	return line{
		name:  "history/set/" + count(s.keys),
		group: "Set of a 3-field struct with a window of history, against the same store without one",
		rows: []versus{{
			title: fmt.Sprintf("binary, %s keys, 1 goroutine", count(s.keys)),
			ours:  "copal", theirs: []string{"without"}, own: true, metric: perOp, goal: atMost(1.03),
		}},
		setup: func(e *env) ([]side, error) {
			keys, order := makeKeys(s.keys), shuffled(s.keys, s.ops)
			kept, err := openCopal[Person](e, "kept", codec.Binary, copal.WithHistory(window))
			if err != nil {
				return nil, err
			}
			plain, err := openCopal[Person](e, "plain", codec.Binary)
			if err != nil {
				return nil, err
			}
			return []side{
				setSide("copal", kept, keys, order, 1),
				setSide("without", plain, keys, order, 1),
			}, fill(keys, personOf, kept, plain)
		},
	}
}

// momentLine: many keys with ten versions each, as JSON; the middle of their history.
func momentLine(s setting) line {
	n := s.manyKeys
	title := fmt.Sprintf("%s keys, %d versions of each", count(n), versions)
	return line{
		name:  "history/get/" + count(n),
		group: "Get of a 3-field struct at a past moment, JSON, against Get at a snapshot of now",
		full:  true,
		rows: []versus{
			{title: title, ours: "copal", theirs: []string{"now"}, own: true, metric: perOp, goal: atMost(2).dreaming(1.2)},
			{title: "  to open the moment", ours: "copal", metric: openMoment},
			{title: fmt.Sprintf("  log for a version of %.0f B", versionBytes), ours: "copal", metric: versionLog},
		},
		setup: func(e *env) ([]side, error) {
			keys, order := makeKeys(n), shuffled(n, s.ops)
			m, err := openCopal[Person](e, "store", codec.JSON, copal.WithHistory(window))
			if err != nil {
				return nil, err
			}
			var middle uint64
			for round := range versions {
				for i, key := range keys {
					if err := m.Set(key, personOf(int32(i), round)); err != nil {
						return nil, err
					}
				}
				if round == versions/2-1 {
					if middle, err = lastRecord(m.DB()); err != nil {
						return nil, err
					}
				}
			}
			if err := m.Sync(); err != nil {
				return nil, err
			}
			bytes, err := logSize(e.path("store"))
			if err != nil {
				return nil, err
			}
			start := time.Now()
			then, err := m.DB().AsOfSeq(middle)
			if err != nil {
				return nil, err
			}
			opening := time.Since(start)
			e.after(then.Close)
			now, err := m.DB().Snapshot()
			if err != nil {
				return nil, err
			}
			e.after(now.Close)
			past := momentSide("copal", m.At(then), keys, order, versions/2-1)
			measure := past.measure
			past.measure = func(round int) (figures, error) {
				f, err := measure(round)
				if err == nil {
					f[openMoment], f[versionLog] = float64(opening), bytes/float64(n*versions)
				}
				return f, err
			}
			return []side{past, momentSide("now", m.At(now), keys, order, versions-1)}, nil
		},
	}
}

// momentSide reads a map in its state after a round.
func momentSide(name string, m *copal.Map[string, Person], keys []string, order []int32, round int) side {
	w := workload{
		name: name, workers: 1, order: order,
		loop: func(_ int, part []int32) error {
			for _, i := range part {
				if got, ok := m.Get(keys[i]); !ok || got.Age != int(i) {
					return wrong(i, got, personOf(i, round))
				}
			}
			return nil
		},
		check: func(int) error { return holds[Person](m, keys, spots(order), personOf, round) },
	}
	return w.side()
}

// lastRecord returns the number of the last record.
func lastRecord(db *copal.DB) (uint64, error) {
	s, err := db.Snapshot()
	if err != nil {
		return 0, err
	}
	return s.Seq(), s.Close()
}

// undoLine: a map is dropped by mistake, and comes back.
func undoLine(s setting) line {
	return line{
		name:  "history/undo/" + count(s.keys),
		group: "Undo of a map that was dropped by mistake",
		full:  true,
		rows: []versus{{
			title: fmt.Sprintf("JSON, %s entries", count(s.keys)), ours: "copal", metric: undoTime, goal: valueUpTo(2e9),
		}},
		setup: func(e *env) ([]side, error) {
			keys := makeKeys(s.keys)
			m, err := openCopal[Person](e, "store", codec.JSON, copal.WithHistory(window))
			if err != nil {
				return nil, err
			}
			if err := errors.Join(fill(keys, personOf, m), m.Close()); err != nil { // an open map is not dropped
				return nil, err
			}
			return []side{{"copal", func(int) (figures, error) { return undoDrop(e.ctx, m.DB(), keys) }}}, nil
		},
	}
}

func undoDrop(ctx context.Context, db *copal.DB, keys []string) (f figures, err error) {
	before, err := lastRecord(db)
	if err != nil {
		return nil, err
	}
	if err := db.Drop("people"); err != nil {
		return nil, err
	}
	start := time.Now()
	then, err := db.AsOfSeq(before)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, then.Close()) }()
	now, err := db.Snapshot()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, now.Close()) }()
	if _, err := admin.Undo(ctx, db, then, now, nil, nil); err != nil {
		return nil, err
	}
	took := time.Since(start)
	m, err := copal.OpenMap[string, Person](db, "people")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if m.Len() != len(keys) {
		return nil, fmt.Errorf("%d of %d entries are back", m.Len(), len(keys))
	}
	return figures{undoTime: float64(took)}, holds[Person](m, keys, []int32{0, int32(len(keys) - 1)}, personOf, 0)
}

// watchLines: the cost of a watch for a writer at full load.
func watchLines(s setting) []line {
	return []line{
		watchLine(s, "all", "one, of everything", 1, func(int) []copal.WatchOption { return nil }),
		watchLine(s, "keys", "1,000, of keys not written", 1000, func(n int) []copal.WatchOption {
			return []copal.WatchOption{copal.WithKey(fmt.Append(nil, "nobody:", n))}
		}),
	}
}

func watchLine(s setting, name, title string, watches int, opts func(n int) []copal.WatchOption) line {
	return line{
		name:  "watch/set/" + name,
		group: "Set of a 3-field struct with watches of the store, against the same store without one",
		rows: []versus{{
			title: title, ours: "copal", theirs: []string{"without"}, own: true, metric: perOp, goal: atMost(1.05),
		}},
		setup: func(e *env) ([]side, error) {
			keys, order := makeKeys(s.keys), shuffled(s.keys, s.ops)
			heard, err := openCopal[Person](e, "heard", codec.Binary)
			if err != nil {
				return nil, err
			}
			plain, err := openCopal[Person](e, "plain", codec.Binary)
			if err != nil {
				return nil, err
			}
			if err := fill(keys, personOf, heard, plain); err != nil {
				return nil, err
			}
			ctx, cancel := context.WithCancel(e.ctx)
			ended := make(chan error, watches)
			for n := range watches {
				go func() {
					for _, err := range heard.DB().Watch(ctx, opts(n)...) {
						if err != nil {
							ended <- err
							return
						}
					}
					ended <- nil
				}()
			}
			e.after(func() error {
				cancel()
				for range watches {
					if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
						return err
					}
				}
				return nil
			})
			return []side{
				setSide("copal", heard, keys, order, 1),
				setSide("without", plain, keys, order, 1),
			}, nil
		},
	}
}
