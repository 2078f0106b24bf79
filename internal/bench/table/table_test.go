package table

import (
	"bytes"
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name          string
		goal          goal
		result        spread
		want          verdict
		dreamt, close bool
	}{
		{"at most, met", atMost(1), spread{0.9, 0.8, 1.0}, met, false, false},
		{"at most, exactly", atMost(1), spread{1, 1, 1}, met, false, false},
		{"at most, missed", atMost(1), spread{1.001, 1.001, 2}, missed, false, false},
		{"at most, barely", atMost(1), spread{0.99, 0.9, 1.1}, met, false, true},
		{"at most, hardly", atMost(1), spread{1.01, 0.9, 1.1}, missed, false, true},
		{"at most, a dream", atMost(1).dreaming(0.7), spread{0.7, 0.6, 0.8}, met, true, false},
		{"at most, no dream", atMost(1).dreaming(0.7), spread{0.71, 0.6, 0.8}, met, false, false},
		{"at least, met", atLeast(3), spread{3, 3, 4}, met, false, false},
		{"at least, missed", atLeast(3), spread{2.9, 2.8, 2.95}, missed, false, false},
		{"at least, barely", atLeast(3), spread{3.1, 2.9, 4}, met, false, true},
		{"at least, a dream", atLeast(3).dreaming(6), spread{6, 5, 7}, met, true, false},
		{"value, nothing", valueUpTo(0), spread{0, 0, 0}, met, false, false},
		{"value, something", valueUpTo(0), spread{1, 1, 1}, missed, false, false},
		{"no goal", goal{}, spread{5, 1, 9}, none, false, false},
		{"a dream alone", goal{}.dreaming(1), spread{0.5, 0.4, 0.6}, none, true, false},
	} {
		v, dreamt, close := c.goal.judge(c.result)
		if v != c.want || dreamt != c.dreamt || close != c.close {
			t.Errorf("%s: %q, dream %v, close %v", c.name, v, dreamt, close)
		}
	}
}

// rounds makes the figures of a test.
func rounds(bySide map[string][]float64) series {
	s := series{}
	for name, values := range bySide {
		for _, v := range values {
			s.add(name, figures{perOp: v})
		}
	}
	return s
}

// The goal is held against the best of the rivals; ratios are taken round by round.
func TestJudgeChoosesTheBestRival(t *testing.T) {
	l := line{name: "n", group: "g", rows: []versus{{
		title: "t", ours: "us", theirs: []string{"slow", "fast", "slower"}, info: []string{"fastest"}, metric: perOp, goal: atLeast(2),
	}}}
	rows, err := l.judge(rounds(map[string][]float64{
		"us": {10, 20, 10}, "slow": {300, 300, 300}, "fast": {30, 20, 25}, "slower": {400, 400, 400}, "fastest": {1, 1, 1},
	}))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, r := range rows {
		order = append(order, r.Against.Side)
	}
	if got := strings.Join(order, " "); got != "fast slow slower fastest" {
		t.Errorf("order of rows: %s", got)
	}
	first := rows[0]
	if first.Result != (spread{2.5, 1, 3}) || first.Verdict != met || !first.Close || first.Line != "n" || first.Group != "g" {
		t.Errorf("first row: %+v", first)
	}
	if first.Ours.Median != 10 || first.Against.Median != 25 {
		t.Errorf("medians %v and %v", first.Ours.Median, first.Against.Median)
	}
	for _, r := range rows[1:] {
		if r.Verdict != none || r.Reach != nil {
			t.Errorf("a row for information has a verdict: %+v", r)
		}
	}
}

func TestJudgeBySense(t *testing.T) {
	s := rounds(map[string][]float64{"us": {10}, "them": {40}})
	for _, c := range []struct {
		goal goal
		want float64
	}{
		{atMost(1), 0.25}, {goal{}, 0.25}, {atLeast(1), 4}, {valueUpTo(10), 10},
	} {
		v := versus{title: "t", ours: "us", theirs: []string{"them"}, metric: perOp, goal: c.goal}
		rows, err := v.judge(s)
		if err != nil || len(rows) != 1 || rows[0].Result.Median != c.want {
			t.Errorf("%q: %+v, %v; want %v", c.goal.sense, rows, err, c.want)
		}
	}
	alone := versus{title: "t", ours: "us", metric: perOp}
	if rows, err := alone.judge(s); err != nil || len(rows) != 1 || rows[0].Against != nil || rows[0].Result.Median != 10 {
		t.Errorf("%+v, %v", rows, err)
	}
	for _, v := range []versus{
		{ours: "nobody", theirs: []string{"them"}, metric: perOp},
		{ours: "us", theirs: []string{"nobody"}, metric: perOp},
		{ours: "us", theirs: []string{"them"}, metric: perOpSynced},
	} {
		if _, err := v.judge(s); err == nil {
			t.Errorf("%+v can be judged", v)
		}
	}
}

// sample returns a report with a row of each kind.
func sample() *Report {
	l := line{name: "n", group: "Reads of something, against others", rows: []versus{
		{title: "small, 1 goroutine", ours: "copal", theirs: []string{"sync.Map"}, info: []string{"xsync.Map"}, metric: perOp, goal: atMost(0.7).dreaming(0.5)},
		{title: "large, 1 goroutine", ours: "copal", theirs: []string{"sync.Map"}, metric: perOp, goal: atLeast(3)},
		{title: "quick, 1 goroutine", ours: "copal", theirs: []string{"sync.Map"}, metric: perOp, goal: atMost(1).dreaming(0.9)},
		{title: "alone", ours: "copal", metric: perOp, goal: valueUpTo(5e6)},
	}}
	rows, err := l.judge(rounds(map[string][]float64{
		"copal": {120, 130, 110}, "sync.Map": {200, 180, 220}, "xsync.Map": {100, 90, 95},
	}))
	if err != nil {
		panic(err)
	}
	return &Report{
		Machine: Machine{
			OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26", Commit: "0123456789abcdef", Modified: true,
			Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), FileSystem: "tmpfs",
			Rivals: map[string]string{"go.etcd.io/bbolt": "v1.5.0", "example.com/xsync/v4": "v4.5.0"},
		},
		Quick: true, Rounds: 3, Run: "n", Warnings: warnings("tmpfs"), Rows: rows,
	}
}

const sampleText = `linux/amd64, 2 CPUs, go1.26, 2026-01-02 03:04:05, tmpfs, commit 0123456789ab with changes
xsync v4.5.0, bbolt v1.5.0
3 rounds each, in turn; medians
WARNING: tmpfs keeps files in memory: the durable figures mean nothing; choose a disk with --dir

                      copal  against            ratio          min–max  reach  dream

Reads of something, against others
 small, 1 goroutine  120 ns  sync.Map   200 ns  0.60x time   0.50–0.72   ≤0.7   ≤0.5  met ~
                             xsync.Map   95 ns  1.20x time   1.16–1.44
 large, 1 goroutine  120 ns  sync.Map   200 ns  1.67x speed  1.38–2.00     ≥3         missed
 quick, 1 goroutine  120 ns  sync.Map   200 ns  0.60x time   0.50–0.72     ≤1   ≤0.9  dream
 alone               120 ns                                    110–130  ≤5 ms         met

3 met, 1 missed, 1 without a goal. x time, x size: copal's over the other's; x speed: how many times
faster copal is. dream: the reach is met, and the dream too. ~: some rounds say otherwise than the median.
`

func TestTextReport(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != sampleText {
		t.Errorf("got\n%s\nwant\n%s", got, sampleText)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	var b bytes.Buffer
	want := sample()
	if err := want.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	got, err := ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if b.Len() != 0 {
		t.Errorf("there is more than one document: %q", b.String())
	}
}

// wide are figures that need many digits, and lie apart as noise may let them.
var wide = map[unit][2][]float64{
	nanoseconds: {{9994, 12.34e6, 33.33e3}, {33.33e3, 33.33e3, 34.44e3}},
	bytesUnit:   {{9994, 12.34e6, 33.33e3}, {33.33e3, 33.33e3, 34.44e3}},
	allocations: {{0.25, 1234, 0.5}, {1, 1, 1}},
}

// pretend makes the figures of a side, which is ours or another.
func (s series) pretend(side string, m metric, whose int) {
	if s[side] == nil {
		s[side] = map[metric][]float64{}
	}
	s[side][m] = wide[m.unit][whose]
}

// The real table has its width with any figures.
func TestTableIsNarrow(t *testing.T) {
	for _, s := range []scale{fullScale, quickScale} {
		var rows []Row
		for _, l := range slices.Concat(allLines(setting{s, strangers}), redisLines(setting{scale: s}), httpLines(setting{scale: s})) {
			fake := series{}
			for _, v := range l.rows {
				fake.pretend(v.ours, v.metric, 0)
				for _, name := range slices.Concat(v.theirs, v.info) {
					fake.pretend(name, cmp.Or(v.theirMetric, v.metric), 1)
				}
			}
			made, err := l.judge(fake)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, made...)
		}
		r := Report{Machine: describeMachine(t.TempDir(), nil), Rows: rows}
		var b bytes.Buffer
		if err := errors.Join(r.WriteText(&b), r.WriteRatios(&b)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > maxColumns {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func TestQuantities(t *testing.T) {
	for want, got := range map[string]string{
		"0 ns": quantity(0, nanoseconds), "999 ns": quantity(999, nanoseconds), "1.00 µs": quantity(999.9, nanoseconds),
		"1 µs": quantity(1000, nanoseconds), "12.3 µs": quantity(12340, nanoseconds), "123 ms": quantity(123.4e6, nanoseconds),
		"3600 s": quantity(3.6e12, nanoseconds), "16.5 B": quantity(16.5, bytesUnit), "1.50 KiB": quantity(1536, bytesUnit),
		"3": quantity(3, allocations), "0.25": quantity(0.25, allocations),
		"0.60": factor(0.6), "9.99": factor(9.99), "10.0": factor(9.996), "99.4": factor(99.4), "100": factor(99.6),
		"100k": count(100_000), "1M": count(1_000_000), "1234": count(1234), "128 B": size(128), "4 KiB": size(4 << 10),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
