package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// A topic is a table of the output: lines of the same sides and rows.
type topic struct {
	title, about string
	sides        []string
	rows         []row
}

// A row is a figure of each line. The least is the best.
type row struct {
	figure string // phase and name
	title  string
	unit   string
	enough float64 // if not 0, a figure up to this is good without being the first
}

// A line is a part of a table: phases that each side goes through, on a store of its own.
type line struct {
	*topic
	name   string // matched by -run
	label  string
	rounds int
	phases []spec
}

// scale has the sizes.
type scale struct {
	records []int // in each of the collections
	reads   int
	cycles  []cycles
	blobs   []int
	mixes   []mix
	synced  []int // the operations of each mix where every write is synced
}

// cycles says how often stores with so many records in each collection are opened.
type cycles struct{ records, times int }

var fullScale = scale{
	records: []int{40_960, 81_920, 163_840},
	reads:   40_000,
	cycles:  []cycles{{1_000, 1_000}, {40_960, 100}},
	blobs:   []int{100, 1_000},
	mixes: []mix{
		{Keys: 10_000, Ops: 10_000, Goroutines: 10, Writes: 20},
		{Keys: 100_000, Ops: 1_000_000, Goroutines: 150, Writes: 20},
		{Keys: 5_000_000, Ops: 5_000_000, Goroutines: 200, Writes: 10},
	},
	synced: []int{10_000, 100_000, 100_000},
}

var quickScale = scale{
	records: []int{4_096, 8_192, 16_384},
	reads:   4_000,
	cycles:  []cycles{{1_000, 100}, {4_096, 10}},
	blobs:   []int{10, 100},
	mixes: []mix{
		{Keys: 1_000, Ops: 1_000, Goroutines: 10, Writes: 20},
		{Keys: 10_000, Ops: 100_000, Goroutines: 150, Writes: 20},
		{Keys: 500_000, Ops: 500_000, Goroutines: 200, Writes: 10},
	},
	synced: []int{1_000, 10_000, 10_000},
}

func allLines(s scale) (lines []line) {
	withRaw, reads := append([]string{ownMaps, ownRaw}, others...), thousands(s.reads)
	t := &topic{"Five collections of records of 1.2 KB of JSON", `Each store has all five: copal as typed maps of a struct, the others as bytes under prefixes, which encoding/json makes and
reads. Transactions write 1,000 records each, in the order of the keys. No side syncs them; one sync at the end is in the clock.
copal also syncs every second, in the background. The files are in the page cache when they are read.`, withRaw, slices.Concat([]row{
		{"write time", "write", seconds, 0},
		{"open time", "open plus one read", seconds, 5e-3},
		{"reads time", "open plus " + reads + " random reads", seconds, 0},
		{"write files", "file size", size, 0},
	}, memoryRows("write", "write"), memoryRows("open", "one read"), memoryRows("reads", reads+" reads"))}
	for _, n := range s.records {
		lines = append(lines, line{t, fmt.Sprintf("collections/%d", n), "5 × " + thousands(n) + " records", 3, []spec{
			{Phase: "write", Records: n}, {Phase: "open", Records: n, Times: 1}, {Phase: "reads", Records: n, Times: s.reads},
		}})
	}
	t = &topic{"Cycles: open, read one record, close", "In one process, on stores of five collections.", withRaw, slices.Concat([]row{
		{"cycles p50", "a cycle, median", seconds, 0},
		{"cycles p99", "a cycle, p99", seconds, 0},
		{"cycles time", "all", seconds, 0},
	}, memoryRows("cycles", "all"))}
	for _, c := range s.cycles {
		label := fmt.Sprintf("%s cycles, 5 × %s records", thousands(c.times), thousands(c.records))
		lines = append(lines, line{t, fmt.Sprintf("cycles/%d", c.records), label, 1, []spec{
			{Phase: "write", Records: c.records}, {Phase: "cycles", Records: c.records, Times: c.times},
		}})
	}
	t = &topic{"Blobs of 2 to 5 MB", `Each is written by itself. No side syncs it; one sync at the end is in the clock. All are read in order after opening,
and compared. 8 MiB of the memory are the source of the blobs, on every side. Raw.Create and Raw.Open of copal would
stream; Set and Get are measured, as the others have no more.`, append([]string{ownRaw}, others...), slices.Concat([]row{
		{"put time", "write", seconds, 0},
		{"get time", "open plus reading all", seconds, 0},
		{"put files", "file size", size, 0},
	}, memoryRows("put", "write"), memoryRows("get", "reading"))}
	for _, n := range s.blobs {
		lines = append(lines, line{t, fmt.Sprintf("blobs/%d", n), thousands(n) + " blobs", roundsOf(n > 100), []spec{
			{Phase: "put", Times: n}, {Phase: "get", Times: n},
		}})
	}
	t = &topic{"Mixes, writes not synced", `Time of an operation, and the same with one sync at the end. The memory is what a store adds to the process: keys and the
order of operations were there before. copal async is SetAsync, which may lose a write when the process dies, as pebble may;
copal is Set. sync.Map keeps nothing, and is not counted among the rivals.`, slices.Concat([]string{ownAsync, ownMaps}, others, []string{reference}), []row{
		{"mix time", "an operation", seconds, 0},
		{"mix synced", "  with the sync", seconds, 0},
		{"mix added", "memory", size, 0},
	}}
	for _, m := range s.mixes {
		lines = append(lines, mixLines(t, "mixes", m)...)
	}
	t = &topic{"Mixes, each write synced when it returns", "copal is SetFSync. bbolt shares transactions, by Batch. There are fewer operations than above.",
		append([]string{ownMaps}, others...), []row{{"mix time", "an operation", seconds, 0}}}
	for n, m := range s.mixes {
		m.Ops, m.Durable = s.synced[n], true
		lines = append(lines, mixLines(t, "synced", m)...)
	}
	return lines
}

// roundsOf is one for the lines that take longest.
func roundsOf(long bool) int {
	if long {
		return 1
	}
	return 3
}

// memoryRows returns the rows of the memory of a process after a phase.
func memoryRows(phase, title string) []row {
	return []row{
		{phase + " anonymous", "memory after " + title + ": anonymous", size, 0},
		{phase + " resident", "  with pages of files", size, 0},
		{phase + " heap", "  heap of Go, no garbage", size, 0},
	}
}

// mixLines returns two lines of a mix, one of structs and one of strings.
func mixLines(t *topic, family string, m mix) (lines []line) {
	label := fmt.Sprintf("%s keys, %s operations, %d goroutines, %d %% writes, ", thousands(m.Keys), thousands(m.Ops), m.Goroutines, m.Writes)
	for _, m.Values = range []string{"structs", "strings"} {
		name := fmt.Sprintf("%s/%d/%s", family, m.Keys, m.Values)
		lines = append(lines, line{t, name, label + m.Values, roundsOf(m.Keys > 1_000_000), []spec{{Phase: "mix", Mix: m}}})
	}
	return lines
}

// thousands writes 40960 as 40,960.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// measure lets the sides take turns, and another begin in each round.
func (l *line) measure(ctx context.Context, dir string) (*lineResult, error) {
	all := map[string][]figures{}
	for round := range l.rounds {
		for i := range l.sides {
			side := l.sides[(i+round)%len(l.sides)]
			f, err := l.once(ctx, dir, side, round)
			if err != nil {
				return nil, err
			}
			all[side] = append(all[side], f)
		}
	}
	return l.result(all), nil
}

// once takes a side through all phases. The store is gone afterwards.
func (l *line) once(ctx context.Context, base, side string, round int) (all figures, err error) {
	dir, err := os.MkdirTemp(base, "store-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all = figures{}
	for _, s := range l.phases {
		s.Side, s.Dir, s.Round = side, dir, round
		f, err := runPhase(ctx, &s)
		if err != nil {
			return nil, err
		}
		if f["files"], err = fileBytes(dir); err != nil {
			return nil, err
		}
		for name, v := range f {
			all[s.Phase+" "+name] = v
		}
	}
	return all, nil
}
