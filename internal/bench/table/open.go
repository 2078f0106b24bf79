package table

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/bench/rivals"
	bolt "go.etcd.io/bbolt"
)

var openTime = metric{"time to open, read one value and close", nanoseconds}

// openLines: how long a program waits for a store that was closed well, and that the page cache
// knows.
func openLines(s setting) []line {
	title := fmt.Sprintf("binary, %s keys, 1 goroutine", count(s.manyKeys))
	return []line{{
		name:  "open/" + count(s.manyKeys),
		group: "Open a store that was closed, read one value, close it",
		full:  true,
		cold:  true,
		rows: []versus{
			{title: title, ours: "copal", metric: openTime, goal: valueUpTo(5e6)},
			{title: title, ours: "copal", theirs: []string{"bbolt"}, metric: openTime, goal: goal{}.dreaming(1)},
		},
		setup: func(e *env) ([]side, error) {
			keys := makeKeys(s.manyKeys)
			order := shuffled(len(keys), 100)
			if err := errors.Join(leaveCopal(e.path("copal"), keys), leaveBolt(e.path("bbolt"), keys)); err != nil {
				return nil, err
			}
			return []side{
				{"copal", func(round int) (figures, error) { return reopenCopal(e.path("copal"), keys, order[round]) }},
				{"bbolt", func(round int) (figures, error) { return reopenBolt(e.path("bbolt"), keys, order[round]) }},
			}, nil
		},
	}}
}

// leaveCopal makes a store and closes it.
func leaveCopal(dir string, keys []string) (err error) {
	m, err := copal.OpenSingleMap[string, Person](dir, copal.WithCodec(codec.Binary))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return fill(keys, personOf, m)
}

func leaveBolt(dir string, keys []string) (err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	s, err := rivals.OpenBolt(dir, &bolt.Options{NoSync: true}) // with its list of free pages in the file, for opening makes one else
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return fillBlobs(s, asBytes(keys), valueBytes)
}

func reopenCopal(dir string, keys []string, i int32) (figures, error) {
	start := time.Now()
	m, err := copal.OpenSingleMap[string, Person](dir, copal.WithCodec(codec.Binary))
	if err != nil {
		return nil, err
	}
	got, err := m.Load(keys[i])
	err = errors.Join(err, m.Close())
	took := time.Since(start)
	if err == nil && got != personOf(i, 0) {
		err = wrong(i, got, personOf(i, 0))
	}
	return figures{openTime: float64(took)}, err
}

func reopenBolt(dir string, keys []string, i int32) (figures, error) {
	if _, err := os.Stat(filepath.Join(dir, rivals.BoltFile)); err != nil {
		return nil, err
	}
	start := time.Now()
	db, err := bolt.Open(filepath.Join(dir, rivals.BoltFile), 0o600, &bolt.Options{})
	if err != nil {
		return nil, err
	}
	got, err := rivals.Bolt{DB: db}.Get([]byte(keys[i]))
	err = errors.Join(err, db.Close())
	took := time.Since(start)
	if err == nil && keyOf(got, valueBytes) != i {
		err = wrong(i, got, "others")
	}
	return figures{openTime: float64(took)}, err
}
