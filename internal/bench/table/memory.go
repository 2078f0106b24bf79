package table

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

// The memory of a store can only be measured in a process that holds nothing else, so each side of
// these lines is this program again, as a child that fills a store or a map and reports. The memory
// counted is anonymous: not the pages of files, which the kernel may drop.

var (
	perKey  = metric{"anonymous memory per key", bytesUnit}
	gcCycle = metric{"time of a garbage collection", nanoseconds}
)

// memoryLines: the memory of an idle key, if the system reports it.
func memoryLines(s setting) []line {
	if _, err := anonymousBytes(); err != nil {
		return nil // not on this system
	}
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
			child := func(kind string) func(int) (figures, error) {
				return func(round int) (figures, error) {
					return runChild(e, s.manyKeys, kind, e.path(fmt.Sprintf("%s-%d", kind, round)))
				}
			}
			return []side{{"copal", child("copal")}, {"Go map", child("map")}}, nil
		},
	}}
}

// childVariable in the environment says that this process is such a child, and which.
const childVariable = "COPAL_BENCH_CHILD"

// childReport is the output of a child.
type childReport struct{ BytesPerKey, GCNanoseconds float64 }

func runChild(e *env, keys int, kind, dir string) (figures, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(e.ctx, program, dir, strconv.Itoa(keys))
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

// BeChild does the work of a child and ends the process, if this process is one. Programs that call
// Run call BeChild first.
func BeChild() {
	kind := os.Getenv(childVariable)
	if kind == "" {
		return
	}
	if err := child(kind); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(kind string) error {
	if len(os.Args) != 3 {
		return errors.New("a child wants a directory and a number of keys")
	}
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	report, err := weigh(kind, filepath.Clean(os.Args[1]), n)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// weigh fills a store or a map, and reports by how much the process has grown.
func weigh(kind, dir string, n int) (r childReport, err error) {
	before, err := anonymous()
	if err != nil {
		return r, err
	}
	var m Map[Person]
	switch kind {
	case "copal":
		store, err := copal.OpenSingleMap[string, Person](dir, append(uncached(), copal.WithCodec(codec.Binary))...)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		m = store
	case "map":
		m = newLockedMap[Person]()
	default:
		return r, fmt.Errorf("there is no child %q", kind)
	}
	for i := range n {
		if err := m.Set(fmt.Sprintf("user-%08d", i), strangerOf(i)); err != nil {
			return r, err
		}
	}
	after, err := anonymous()
	if err != nil {
		return r, err
	}
	r = childReport{BytesPerKey: float64(after-before) / float64(n), GCNanoseconds: gcTime()}
	for i := 0; i < n; i += max(n/100, 1) {
		if got, ok := m.Get(fmt.Sprintf("user-%08d", i)); !ok || got != strangerOf(i) {
			return r, wrong(int32(i), got, strangerOf(i))
		}
	}
	return r, nil
}

// strangerOf returns a person whose name shares no memory with another.
func strangerOf(i int) Person {
	return Person{Name: "person " + strconv.Itoa(i), Age: i, Score: float64(i)}
}

// gcTime returns the median time of a few collections.
func gcTime() float64 {
	var times []float64
	for range 5 {
		start := time.Now()
		runtime.GC()
		times = append(times, float64(time.Since(start)))
	}
	return median(times)
}

// anonymous returns the memory of this process that is not of files, after garbage was given back.
func anonymous() (int64, error) {
	debug.FreeOSMemory()
	return anonymousBytes()
}
