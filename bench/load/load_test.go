package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// TestMain lets the phases of the tests be processes of their own, as those of the program are.
func TestMain(m *testing.M) {
	if text := os.Getenv(phaseVariable); text != "" {
		exit(bePhase(text, os.Stdout))
	}
	os.Exit(m.Run())
}

var tinyScale = scale{
	records: []int{30},
	reads:   100,
	cycles:  []cycles{{10, 3}},
	blobs:   []int{2},
	mixes:   []mix{{Keys: 50, Ops: 200, Goroutines: 7, Writes: 20}},
	synced:  []int{60},
}

// Every side goes through every phase, and every row has a figure for it.
func TestEveryLine(t *testing.T) {
	for _, l := range allLines(tinyScale) {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.rounds = 2
			r, err := l.measure(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Rows) != len(l.rows) && runtime.GOOS == "linux" {
				t.Errorf("%d rows of %d", len(r.Rows), len(l.rows))
			}
			for _, row := range r.Rows {
				best := 0
				for i, c := range row.Cells {
					if len(c.Rounds) != 2 || c.Most <= 0 && row.Title != "memory" {
						t.Errorf("%s, %s: %v", row.Title, r.Sides[i], c)
					}
					if c.Best {
						best++
					}
				}
				if best != 1 {
					t.Errorf("%s: %d sides are the best", row.Title, best)
				}
			}
		})
	}
}

// The whole program, from flags to tables and file.
func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // the lock of this test is its own
	dir := t.TempDir()
	file := filepath.Join(dir, "load.json")
	var out, said bytes.Buffer
	args := []string{"-quick", "-run", "^(mixes|synced)/1000/strings", "-dir", dir, "-json", file}
	if err := run(t.Context(), args, &out, &said); err != nil {
		t.Fatal(err, said.String())
	}
	for _, want := range []string{"Mixes, writes not synced", "Mixes, each write synced when it returns", "place of copal", "one round", "1,000 keys, 1,000 operations, 10 goroutines, 20 % writes, strings"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || len(r.Lines) != 2 || !r.Quick || r.Seconds <= 0 {
		t.Errorf("%d lines, %v", len(r.Lines), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".load-*")); len(left) > 0 || err != nil {
		t.Errorf("left there: %q, %v", left, err)
	}
}

func TestFlags(t *testing.T) {
	for args, part := range map[string]string{
		"-run nosuchline": "there are collections/40960, ",
		"-rounds -1":      "one round at least",
		"x":               "flags only",
		"-run [":          "missing closing",
		"-h":              flag.ErrHelp.Error(),
	} {
		if err := run(t.Context(), strings.Fields(args), &bytes.Buffer{}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", args, err)
		}
	}
	names := map[string]bool{}
	for _, l := range allLines(fullScale) {
		if names[l.name] {
			t.Errorf("two lines are called %s", l.name)
		}
		names[l.name] = true
	}
}

// A wrong record ends each phase that reads, on each side, and the error comes out of the child.
func TestWrongRecordIsNoticed(t *testing.T) {
	const n = 20
	for _, name := range append([]string{ownMaps, ownRaw}, others...) {
		t.Run(name, func(t *testing.T) {
			s := &spec{Side: name, Dir: t.TempDir(), Records: n}
			fill := func(of func(c, i int) record) {
				t.Helper()
				st, err := openRecords(s)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(fillRecords(st, n, of), st.close()); err != nil {
					t.Fatal(err)
				}
			}
			read := func(name string, times int) error {
				s.Phase, s.Times = name, times
				return phases[name](s, figures{})
			}
			fill(recordOf)
			for phase, times := range map[string]int{"open": 1, "reads": 100, "cycles": 3} {
				if err := read(phase, times); err != nil {
					t.Errorf("%s: %v", phase, err)
				}
			}
			fill(func(c, i int) record {
				r := recordOf(c, i)
				r.Scores[7]++
				return r
			})
			for phase, times := range map[string]int{"open": 1, "reads": 100, "cycles": 3} {
				if err := read(phase, times); err == nil || !strings.Contains(err.Error(), "not {ID:") {
					t.Errorf("%s: nobody notices: %v", phase, err)
				}
			}
			s.Phase, s.Times = "open", 1
			if _, err := runPhase(t.Context(), s); err == nil || !strings.Contains(err.Error(), "not {ID:") {
				t.Errorf("the child says nothing: %v", err)
			}
			s.Records = 2 * n // half are absent
			if err := read("reads", 100); err == nil {
				t.Error("nobody notices what is absent")
			}
		})
	}
}

func TestWrongBlobIsNoticed(t *testing.T) {
	for _, name := range append([]string{ownRaw}, others...) {
		t.Run(name, func(t *testing.T) {
			s := &spec{Phase: "get", Side: name, Dir: t.TempDir(), Times: 2}
			fill := func(of func(i int) []byte) {
				t.Helper()
				st, err := engines[name].Open(s.Dir, false)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(fillBlobs(st, s.Dir, s.Times, of), st.Close()); err != nil {
					t.Fatal(err)
				}
			}
			fill(blobOf)
			if err := getBlobs(s, figures{}); err != nil {
				t.Fatal(err)
			}
			fill(func(i int) []byte {
				b := bytes.Clone(blobOf(i))
				b[len(b)-1] += byte(i) // the second blob is wrong at the end
				return b
			})
			if err := getBlobs(s, figures{}); err == nil || !strings.Contains(err.Error(), "blob 1") {
				t.Errorf("nobody notices: %v", err)
			}
		})
	}
}

// faulty is a side in memory that does wrong.
type faulty struct {
	memory[string]
	get1 func(key string, v string) string // the value that is read instead
	set1 func(key string, v string) string // the value that is written instead
}

func (s *faulty) get(c int, key string) (string, error) {
	v, err := s.memory.get(c, key)
	if err == nil && s.get1 != nil {
		v = s.get1(key, v)
	}
	return v, err
}

func (s *faulty) set(c int, key string, v string) error {
	if s.set1 != nil {
		if v = s.set1(key, v); v == "" {
			return nil
		}
	}
	return s.memory.set(c, key, v)
}

func TestWrongMixIsNoticed(t *testing.T) {
	m := mix{Keys: 20, Ops: 400, Goroutines: 4, Writes: 20}
	measure := func(s *faulty) error { return newWork(m, 0, texts).measure(s, figures{}, figures{}) }
	if err := measure(&faulty{}); err != nil {
		t.Fatal(err)
	}
	var once sync.Once // one read is wrong, within the clock, and reading again finds nothing
	mixedUp := func(_, v string) string {
		once.Do(func() { v = "7" + v })
		return v
	}
	for name, s := range map[string]*faulty{
		"mixed up once":   {get1: mixedUp},
		"lost write":      {set1: func(string, string) string { return "" }},
		"another's value": {get1: func(key, v string) string { return "7" + v }},
		"damaged text":    {set1: func(key, v string) string { return v[:len(v)-1] + "#" }},
		"no edition":      {set1: func(key, v string) string { return strings.Fields(v)[0] + " x y" }},
		"a later edition": {set1: func(key, v string) string { f := strings.Fields(v); return f[0] + " 401 " + f[2] }},
	} {
		if err := measure(s); err == nil {
			t.Errorf("%s: nobody notices", name)
		}
	}
	absent := newWork(m, 0, texts)
	if err := absent.do(new(memory[string])); !errors.Is(err, rivals.ErrAbsent) {
		t.Errorf("an empty store: %v", err)
	}
}

func TestValues(t *testing.T) {
	total := 0
	for i := range 1000 {
		b, err := json.Marshal(recordOf(i%collections, i))
		if err != nil {
			t.Fatal(err)
		}
		total += len(b)
		if n := len(blobOf(i)); n < leastBlob || n >= mostBlob {
			t.Errorf("a blob of %d bytes", n)
		}
		if texts.edition(texts.of(i, 2*i)) != 2*i || !texts.belongs(texts.of(i, 7), i) || texts.belongs(texts.of(i, 7), i+1) {
			t.Errorf("text %q", texts.of(i, 2*i))
		}
	}
	if mean := total / 1000; mean < 1150 || mean > 1250 {
		t.Errorf("a record takes %d bytes of JSON", mean)
	}
	if recordOf(1, 2) != ownRecord(1, 2) || recordOf(1, 2).Notes == recordOf(2, 1).Notes {
		t.Error("a record is not made from its number alone")
	}
}

func TestPlaces(t *testing.T) {
	sides := []string{ownMaps, ownRaw, "bbolt", "pebble", reference}
	for _, c := range []struct {
		figures [5]float64
		enough  float64
		best    int
		places  string
	}{
		{[5]float64{1, 2, 3, 4, 0.5}, 0, 0, "first, first"},
		{[5]float64{3, 3.3, 3, 4, 0.5}, 0, 0, "first, within 10 %"},
		{[5]float64{4, 3.31, 3, 4, 0.5}, 0, 2, "1.33x, 1.1x"},
		{[5]float64{4, 6, 4, 2, 0.5}, 5, 3, "≤ 5.00 s, 3x"},
	} {
		r := rowResult{Unit: seconds, Enough: c.enough}
		for _, v := range c.figures {
			r.Cells = append(r.Cells, cell{Median: v})
		}
		r.judge(sides)
		best := slices.IndexFunc(r.Cells, func(c cell) bool { return c.Best })
		if got := strings.Join(r.Places, ", "); got != c.places || best != c.best {
			t.Errorf("%v: side %d is the best, copal is %s", c.figures, best, got)
		}
	}
}

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{1.234, seconds, "1.23 s"}, {12.34, seconds, "12.3 s"}, {123.4, seconds, "123 s"}, {95e-9, seconds, "95.0 ns"}, {0, seconds, "0.00 ns"},
		{4.2e-3, seconds, "4.20 ms"}, {303 << 20, size, "303 MiB"}, {1536, size, "1.50 KiB"}, {12, size, "12.0 B"},
	} {
		if got := quantity(c.v, c.unit); got != c.want {
			t.Errorf("%v is %q, not %q", c.v, got, c.want)
		}
	}
	if median([]float64{3, 1, 2}) != 2 || median([]float64{4, 1, 3, 2}) != 2.5 {
		t.Error("median")
	}
	if thousands(5_000_000) != "5,000,000" || thousands(999) != "999" {
		t.Error("thousands")
	}
}

// An interrupt and an error of a child end the run.
func TestPhaseFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runPhase(ctx, &spec{Phase: "nothing"}); err == nil {
		t.Error("a run that was interrupted goes on")
	}
	if _, err := runPhase(t.Context(), &spec{Phase: "nonsense"}); err == nil || !strings.Contains(err.Error(), "there is no phase") {
		t.Error(err)
	}
	if _, err := runPhase(t.Context(), &spec{Phase: "write", Side: "nonsense", Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "there is no side") {
		t.Error(err)
	}
}
