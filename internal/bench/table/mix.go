package table

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/copaldb/copal/codec"
)

// item is the struct of the mixed load.
type item struct {
	ID   int
	Name string
}

func itemOf(key int32, round int) item {
	return item{ID: int(key), Name: names[(int(key)+round)%len(names)]}
}

// mixLines: four reads to a write, by many goroutines, and the size of the data on the disk.
func mixLines(s setting) []line {
	return append(append(asyncMixLines(s), mixLine(s)), fileLine(s))
}

func mixGroup(s setting) string {
	return fmt.Sprintf("80 %% reads, 20 %% writes of %s operations, struct{ID int; Name string}, %s keys, against sync.Map",
		count(s.mixOps), count(s.keys))
}

func mixLine(s setting) line {
	set := func(title, ours string, g goal) versus {
		return versus{title: title + ", " + goroutines(many), ours: ours, theirs: []string{"sync.Map"}, metric: perOp, goal: g}
	}
	return line{
		name:  fmt.Sprintf("mix/set/%s/%d", count(s.keys), many),
		group: mixGroup(s),
		rows: []versus{
			set("Set, binary", "binary", atLeast(1.0).dreaming(1.4)),
			set("Set, json", "json", goal{sense: more}),
		},
		setup: func(e *env) ([]side, error) {
			binary, err := openCopal[item](e, "binary", codec.Binary)
			if err != nil {
				return nil, err
			}
			text, err := openCopal[item](e, "json", codec.JSON)
			if err != nil {
				return nil, err
			}
			plain, keys, order := newSyncMap[item](), makeKeys(s.keys), mixedOrder(s)
			return []side{
				mixSide("binary", binary, keys, order, nil),
				mixSide("json", text, keys, order, nil),
				mixSide("sync.Map", plain, keys, order, nil),
			}, fill(keys, itemOf, binary, text, plain)
		},
	}
}

// mixedOrder returns a random order in which about every fifth operation is a write: ^i means a
// write of key i.
func mixedOrder(s setting) []int32 {
	order := shuffled(s.keys, s.mixOps)
	random := rand.New(rand.NewPCG(2, 2))
	for n := range order {
		if random.IntN(100) < 20 {
			order[n] = ^order[n]
		}
	}
	return order
}

// mixSide reads and writes; a value that it reads may be of this round or of an earlier one.
func mixSide(name string, m Map[item], keys []string, order []int32, finish func() error) side {
	var written []int32
	for _, i := range order {
		if i < 0 {
			written = append(written, ^i)
		}
	}
	w := workload{name: name, workers: many, order: order, finish: finish}
	w.loop = func(round int, part []int32) error {
		for _, i := range part {
			if i < 0 {
				if err := m.Set(keys[^i], itemOf(^i, round)); err != nil {
					return err
				}
			} else if v, ok := m.Get(keys[i]); !ok || v.ID != int(i) {
				return wrong(i, v, itemOf(i, round))
			}
		}
		return nil
	}
	w.check = func(round int) error { return holds(m, keys, spots(written), itemOf, round) }
	return w.side()
}

var logBytes = metric{"bytes of the log", bytesUnit}

// fileLine weighs the log after every key was set once, beside the same entries as JSON lines.
func fileLine(s setting) line {
	weigh := func(c string) versus {
		return versus{
			title: fmt.Sprintf("file size, %s, %s keys", c, count(s.keys)),
			ours:  c, theirs: []string{"JSON lines"}, metric: logBytes, goal: atMost(2.0),
		}
	}
	return line{
		name:  "mix/file/" + count(s.keys),
		group: mixGroup(s),
		once:  true,
		rows:  []versus{weigh("binary"), weigh("json")},
		setup: func(e *env) ([]side, error) {
			keys := makeKeys(s.keys)
			lines := func(int) (figures, error) { return jsonLines(keys) }
			return []side{logSide(e, codec.Binary, keys), logSide(e, codec.JSON, keys), {"JSON lines", lines}}, nil
		},
	}
}

func logSide(e *env, c codec.Codec, keys []string) side {
	return side{c.Name(), func(int) (figures, error) {
		m, err := openCopal[item](e, c.Name(), c)
		if err != nil {
			return nil, err
		}
		if err := fill(keys, itemOf, m); err != nil {
			return nil, err
		}
		if err := m.Sync(); err != nil {
			return nil, err
		}
		n, err := logSize(e.path(c.Name()))
		return figures{logBytes: n}, err
	}}
}

func jsonLines(keys []string) (figures, error) {
	n := 0
	for i, key := range keys {
		line, err := json.Marshal(struct {
			Key   string `json:"key"`
			Value item   `json:"value"`
		}{key, itemOf(int32(i), 0)})
		if err != nil {
			return nil, err
		}
		n += len(line) + 1
	}
	return figures{logBytes: float64(n)}, nil
}

// logSize returns the length of all segments in a directory.
func logSize(dir string) (float64, error) {
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for _, name := range segments {
		info, err := os.Stat(name)
		if err != nil {
			return 0, err
		}
		n += info.Size()
	}
	return float64(n), nil
}
