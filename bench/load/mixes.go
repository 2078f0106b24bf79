package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A mix is reads and writes of keys at random by many goroutines.
type mix struct {
	Keys, Ops, Goroutines int
	Writes                int    // of a hundred operations
	Values                string // "structs" or "strings"
	Durable               bool   // each write is synced when it returns
}

// fillBatch is the number of keys that a transaction sets before the clock begins.
const fillBatch = 10_000

// mostChecked is the number of keys to read when the clock has stopped.
const mostChecked = 100_000

// An item is the struct of the mixes.
type item struct {
	ID      int     `json:"id"`
	Edition int     `json:"edition"`
	Name    string  `json:"name"`
	Score   float64 `json:"score"`
}

// values are the values of the keys. A key has a value for each edition. The store is filled with
// edition 0, and operation n writes edition n+1.
type values[V comparable] struct {
	of      func(i, edition int) V
	belongs func(v V, i int) bool // the quick look, within the clock
	edition func(v V) int
}

var structs = values[item]{
	of: func(i, edition int) item {
		p := picker(i) + picker(edition)<<32
		return item{ID: i, Edition: edition, Name: strings.Clone(p.text(20)), Score: float64(p.below(1000)) / 8}
	},
	belongs: func(v item, i int) bool { return v.ID == i },
	edition: func(v item) int { return v.Edition },
}

// A string has key, edition and text, with a space between each two.
var texts = values[string]{
	of: func(i, edition int) string {
		p := picker(i) + picker(edition)<<32
		b := append(strconv.AppendInt(make([]byte, 0, 64), int64(i), 10), ' ')
		b = append(strconv.AppendInt(b, int64(edition), 10), ' ')
		return string(append(b, p.text(40)...))
	},
	belongs: func(v string, i int) bool {
		id, _, _ := strings.Cut(v, " ")
		n, err := strconv.Atoi(id)
		return err == nil && n == i
	},
	edition: func(v string) int {
		_, rest, _ := strings.Cut(v, " ")
		digits, _, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return -1
		}
		return n
	},
}

func runMix(s *spec, f figures) error {
	if s.Mix.Values == "strings" {
		return mixed(s, f, texts, textForm)
	}
	return mixed(s, f, structs, jsonForm[item]())
}

func mixed[V comparable](s *spec, f figures, v values[V], as form[V]) error {
	w := newWork(s.Mix, s.Round, v)
	before := figures{}
	if err := before.memory(); err != nil {
		return err
	}
	st, err := openSide(s.Side, s.Dir, 1, s.Mix.Durable, as)
	if err != nil {
		return err
	}
	return errors.Join(w.measure(st, f, before), st.close())
}

// work is a mix that has been laid out: the key of each operation, and its kind.
type work[V comparable] struct {
	mix
	values[V]
	keys  []string
	order []int32 // ^i means a write of key i
}

func newWork[V comparable](m mix, round int, v values[V]) *work[V] {
	w := &work[V]{m, v, make([]string, m.Keys), make([]int32, m.Ops)}
	for i := range w.keys {
		w.keys[i] = fmt.Sprintf("user-%08d", i)
	}
	random := rand.New(rand.NewPCG(5, uint64(round)))
	for n := range w.order {
		w.order[n] = random.Int32N(int32(m.Keys))
		if random.IntN(100) < m.Writes {
			w.order[n] = ^w.order[n]
		}
	}
	return w
}

// measure fills the side, and then measures the time of an operation, the same with one sync of all
// at the end, and the memory that the store has added to the process.
func (w *work[V]) measure(st side[V], f, before figures) error {
	for from := 0; from < w.Keys; from += fillBatch {
		err := st.batch(0, min(fillBatch, w.Keys-from), func(i int) (string, V) { return w.keys[from+i], w.of(from+i, 0) })
		if err != nil {
			return err
		}
	}
	if err := st.sync(); err != nil {
		return err
	}
	runtime.GC()
	start := time.Now()
	if err := w.do(st); err != nil {
		return err
	}
	f["time"] = time.Since(start).Seconds() / float64(w.Ops)
	if err := st.sync(); err != nil {
		return err
	}
	f["synced"] = time.Since(start).Seconds() / float64(w.Ops)
	if err := f.memory(); err != nil {
		return err
	}
	if _, known := f["anonymous"]; known {
		f["added"] = max(0, f["anonymous"]-before["anonymous"])
	}
	return w.check(st)
}

// do lets each goroutine do its part of the operations.
func (w *work[V]) do(st side[V]) error {
	var group sync.WaitGroup
	failed := make([]error, w.Goroutines)
	for g := range w.Goroutines {
		group.Go(func() { failed[g] = w.part(st, g*w.Ops/w.Goroutines, (g+1)*w.Ops/w.Goroutines) })
	}
	group.Wait()
	return errors.Join(failed...)
}

func (w *work[V]) part(st side[V], from, to int) error {
	for n := from; n < to; n++ {
		i := int(w.order[n])
		if i < 0 {
			if err := st.set(0, w.keys[^i], w.of(^i, n+1)); err != nil {
				return err
			}
			continue
		}
		v, err := st.get(0, w.keys[i])
		if err != nil {
			return fmt.Errorf("%s: %w", w.keys[i], err)
		}
		if !w.belongs(v, i) {
			return fmt.Errorf("%s is %v", w.keys[i], v)
		}
	}
	return nil
}

// check reads keys: each has a value that an operation has written or, if none has written the key,
// the first.
func (w *work[V]) check(st side[V]) error {
	written := make([]bool, w.Keys)
	for _, i := range w.order {
		if i < 0 {
			written[^i] = true
		}
	}
	for i := 0; i < w.Keys; i += max(1, w.Keys/mostChecked) {
		v, err := st.get(0, w.keys[i])
		if err != nil {
			return fmt.Errorf("%s: %w", w.keys[i], err)
		}
		edition := w.edition(v)
		right := edition == 0 && !written[i] || 0 < edition && edition <= w.Ops && int(w.order[edition-1]) == ^i
		if !right || v != w.of(i, edition) {
			return fmt.Errorf("%s is %v, which is not what was written last", w.keys[i], v)
		}
	}
	return nil
}
