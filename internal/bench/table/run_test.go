package table

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// TestMain lets a test run be the child that the memory line wants to start.
func TestMain(m *testing.M) {
	BeChild()
	os.Exit(m.Run())
}

// strangers take part as those of other modules do.
var strangers = Rivals{
	Stores: []rivals.Engine{{Name: "stranger", Module: "example.com/stranger", Open: rivals.Bunt.Open}},
	Maps:   []RivalMap{{"strange map", "example.com/map", func() Map[Person] { return newLockedMap[Person]() }}},
}

// Every line runs, finds the written values, and yields each of its rows, with rivals of other
// modules and, where these take part, without.
func TestLinesRun(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("badger maps more than there is")
	}
	dir := t.TempDir()
	shared := regexp.MustCompile(`^(get/hit/.*/1|(raw-get|raw-view|raw-put|raw-allocs|values/scan)/128B.*|batch/process|durable|latency.*)$`)
	for _, others := range []Rivals{{}, strangers} {
		seen := map[string]bool{}
		o := Options{Size: Tiny, Rivals: others, Servers: others.Stores != nil}
		lines, err := o.lines()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if others.Stores == nil && !shared.MatchString(l.name) {
				continue
			}
			got, err := l.run(t.Context(), dir, pace{warmUp: 1, least: 1, most: 1, told: func(float64) {}})
			if err != nil {
				t.Error(err)
				continue
			}
			if len(got) < len(l.rows) {
				t.Errorf("%s: %d rows of %d", l.name, len(got), len(l.rows))
			}
			for _, r := range got {
				if r.Line != l.name || r.Group == "" || r.Title == "" || len(r.Ours.Rounds) != 1 {
					t.Errorf("%s: %+v", l.name, r)
				}
				if r.Against != nil {
					seen[r.Against.Side] = true
					if !(r.Result.Median >= 0) {
						t.Errorf("%s: no ratio: %+v", l.name, r)
					}
				}
			}
		}
		for _, name := range []string{"stranger", "stranger, lent", "stranger Sync", "strange map"} {
			if seen[name] != (others.Stores != nil) {
				t.Errorf("rivals %v: %s takes part: %v", others.modules(), name, seen[name])
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLineNamesAreUnique(t *testing.T) {
	for _, s := range []scale{fullScale, quickScale} {
		seen := map[string]bool{}
		for _, l := range allLines(setting{scale: s}) {
			if seen[l.name] {
				t.Errorf("there are two lines %s", l.name)
			}
			seen[l.name] = true
		}
	}
}

func TestChoose(t *testing.T) {
	all := []line{{name: "a/1"}, {name: "a/2", full: true}, {name: "b/1"}}
	for _, c := range []struct {
		expression string
		quick      bool
		want       []string
	}{
		{"", false, []string{"a/1", "a/2", "b/1"}},
		{"", true, []string{"a/1", "b/1"}},
		{"^a/", false, []string{"a/1", "a/2"}},
		{"2|b", true, []string{"b/1"}},
	} {
		chosen, err := choose(all, c.expression, c.quick)
		var got []string
		for _, l := range chosen {
			got = append(got, l.name)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("choose(%q, %v) = %q, %v; want %q", c.expression, c.quick, got, err, c.want)
		}
	}
	if _, err := choose(all, "c", false); err == nil || !strings.Contains(err.Error(), "begin with a, b") {
		t.Errorf("error %v", err)
	}
	if _, err := choose(all, "(", false); err == nil {
		t.Error("( is an expression")
	}
}

func TestLines(t *testing.T) {
	names, err := Lines(Options{Run: "^set/binary"})
	if want := []string{"set/binary/100k/1", "set/binary/100k/150"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
}

func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // a lock of its own
	dir := t.TempDir()
	var steps []Step
	r, err := Run(t.Context(), Options{Size: Quick, Run: "^(allocs|set/binary/.*/1)$", Dir: dir, Command: "c", Budget: time.Nanosecond, Progress: func(s Step) { steps = append(steps, s) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 5 || r.Rows[1].Line != "allocs" || !r.Quick || r.Rounds != fullScale.rounds || r.Command != "c" || r.Machine.CPUs < 1 {
		t.Errorf("%+v", r)
	}
	if n := len(r.Rows[0].Ours.Rounds); n != leastRounds {
		t.Errorf("%d rounds when there is no time", n)
	}
	first, last := steps[0], steps[len(steps)-1]
	if first != (Step{"set/binary/100k/1", 0, 2, 0}) || last != (Step{"allocs", 1, 2, 1}) {
		t.Errorf("steps from %v to %v", first, last)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRunEndsWhenInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Run(ctx, Options{Size: Quick, Run: "^(allocs|set)", Dir: dir, Progress: func(Step) { cancel() }})
	if r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, error %v", r, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestMemoryFileSystemWarns(t *testing.T) {
	if len(warnings("tmpfs")) != 1 || len(warnings("ext4")) != 0 || len(warnings("")) != 0 {
		t.Error("the warning is wrong")
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	var said bytes.Buffer
	if _, err := Run(t.Context(), Options{Size: Tiny, Run: "^allocs$", Dir: dir, Note: func(text string) { said.WriteString(text) }}); err != nil {
		t.Fatal(err)
	}
	if memory := len(warnings(fileSystem(dir))) > 0; memory != strings.Contains(said.String(), "durable") {
		t.Errorf("in a file system %s it is said: %s", fileSystem(dir), said.String())
	}
}
