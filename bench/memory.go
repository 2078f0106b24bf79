package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// What a process holds in memory can only be seen in one that holds nothing else, so each side
// of these lines is this program again, as a child that fills a store or a map and reports.
// The memory counted is anonymous: not the pages of files, which the kernel may drop.

var (
	perKey  = metric{"anonymous memory per key", bytesUnit}
	gcCycle = metric{"time of a garbage collection", nanoseconds}
)

// memoryLines: what a key costs while nobody asks for it.
func memoryLines(s scale) []line {
	n := count(s.manyKeys)
	theirs := []string{"Go map"}
	return []line{{
		name:  "memory/" + n,
		group: "Memory and garbage collection, 3-field struct, binary, no value in the cache, against map[string]struct",
		cold:  true,
		rows: []versus{
			{title: n + " keys, memory per key", ours: "copal", metric: perKey, goal: valueUpTo(24)},
			{title: n + " keys, memory per key", ours: "copal", theirs: theirs, metric: perKey},
			{title: n + " keys, GC cycle", ours: "copal", metric: gcCycle, goal: valueUpTo(5e6)},
			{title: n + " keys, GC cycle", ours: "copal", theirs: theirs, metric: gcCycle},
		},
		setup: func(e *env) ([]side, error) {
			if _, err := anonymous(); err != nil {
				return nil, err
			}
			child := func(kind string) func(int) (figures, error) {
				return func(round int) (figures, error) {
					return runChild(e, kind, e.path(fmt.Sprintf("%s-%d", kind, round)))
				}
			}
			return []side{{"copal", child("copal")}, {"Go map", child("map")}}, nil
		},
	}}
}

// childVariable in the environment says that this process is such a child, and which.
const childVariable = "COPAL_BENCH_CHILD"

// childReport is what a child prints.
type childReport struct{ BytesPerKey, GCNanoseconds float64 }

func runChild(e *env, kind, dir string) (figures, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(e.ctx, program, dir, strconv.Itoa(e.scale.manyKeys))
	cmd.Env = append(os.Environ(), childVariable+"="+kind)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var r childReport
	if err := json.Unmarshal(out, &r); err != nil {
		return nil, err
	}
	return figures{perKey: r.BytesPerKey, gcCycle: r.GCNanoseconds}, os.RemoveAll(dir)
}

// beChild does the work of a child, if this process is one.
func beChild() (is bool, err error) {
	kind := os.Getenv(childVariable)
	if kind == "" {
		return false, nil
	}
	if len(os.Args) != 3 {
		return true, errors.New("a child wants a directory and a number of keys")
	}
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return true, err
	}
	report, err := weigh(kind, filepath.Clean(os.Args[1]), n)
	if err != nil {
		return true, err
	}
	return true, json.NewEncoder(os.Stdout).Encode(report)
}

// weigh fills a store or a map, and reports by how much the process has grown.
func weigh(kind, dir string, n int) (r childReport, err error) {
	before, err := anonymous()
	if err != nil {
		return r, err
	}
	var m aMap[person]
	switch kind {
	case "copal":
		store, err := copal.OpenSingleMap[string, person](dir, append(uncached(), copal.WithCodec(codec.Binary))...)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		m = copalMap[person]{store}
	case "map":
		m = newLockedMap[person]()
	default:
		return r, fmt.Errorf("there is no child %q", kind)
	}
	for i := range n {
		if err := m.set(fmt.Sprintf("user-%08d", i), strangerOf(i)); err != nil {
			return r, err
		}
	}
	after, err := anonymous()
	if err != nil {
		return r, err
	}
	r = childReport{BytesPerKey: float64(after-before) / float64(n), GCNanoseconds: gcTime()}
	for i := 0; i < n; i += max(n/100, 1) {
		if got, ok := m.get(fmt.Sprintf("user-%08d", i)); !ok || got != strangerOf(i) {
			return r, wrong(int32(i), got, strangerOf(i))
		}
	}
	return r, nil
}

// strangerOf is a person whose name shares memory with nobody's.
func strangerOf(i int) person {
	return person{Name: "person " + strconv.Itoa(i), Age: i, Score: float64(i)}
}

// gcTime is the median of a few collections.
func gcTime() float64 {
	var times []float64
	for range 5 {
		start := time.Now()
		runtime.GC()
		times = append(times, float64(time.Since(start)))
	}
	return median(times)
}

// anonymous is the memory of this process that no file stands behind, garbage given back.
func anonymous() (int64, error) {
	debug.FreeOSMemory()
	return anonymousBytes()
}
