package study

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/copaldb/copal/internal/bench/rivals"
	ratios "github.com/copaldb/copal/internal/bench/table"
)

// A journal is the file of results: lines of CSV after a comment with their origin. A repetition is
// appended when it is whole, so a study that was cut off goes on where it was.

// A Header has the facts that must be the same for all results in one file.
type Header struct {
	Format  int               `json:"format"`
	Subject string            `json:"subject"` // the records
	Machine string            `json:"machine"`
	Modules map[string]string `json:"modules"` // versions of Go, copal and the measured rivals
	Begun   string            `json:"begun"`   // a date; of no account
}

// libraries are the modules of the encodings.
var libraries = map[string]string{
	"cbor": "github.com/fxamacker/cbor/v2", "msgpack": "github.com/vmihailenco/msgpack/v5", "json2": "github.com/go-json-experiment/json",
}

// Begin waits until no other benchmark runs on this machine, and returns the header for the results
// of this process. The caller ends the study with unlock. Begin calls note with messages for the
// user.
func Begin(ctx context.Context, o Options, note func(text string)) (h Header, unlock func() error, err error) {
	paths := map[string]string{}
	maps.Copy(paths, libraries)
	for _, e := range o.Engines {
		if e.Name != rivals.Copal.Name {
			paths[e.Name] = e.Module
		}
	}
	m, unlock, err := ratios.Begin(ctx, o.Dir, slices.Collect(maps.Values(paths)), note)
	if err != nil {
		return h, nil, err
	}
	h = Header{
		Format:  Format,
		Subject: users{}.Name(),
		Machine: fmt.Sprintf("%s/%s, %d CPUs, %s", m.OS, m.Arch, m.CPUs, m.FileSystem),
		Modules: map[string]string{"go": m.Go, "copal": version()},
		Begun:   m.Date.Format(time.DateOnly),
	}
	if o.Own != nil {
		h.Subject = o.Own.Name()
	}
	for name, path := range paths {
		h.Modules[name] = m.Rivals[path]
	}
	return h, unlock, nil
}

// version returns the version of copal in this program, whose main module may be another.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path == rivals.Copal.Module {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == rivals.Copal.Module && m.Replace == nil {
			return m.Version
		}
	}
	return "(devel)"
}

// Format is the version of the file.
const Format = 1

const marker = "# copal study "

var columns = []string{"engine", "strategy", "insert", "sync", "records", "repetition", "step", "nanoseconds", "allocations",
	"alloc_bytes", "file_bytes", "logical_bytes"}

// ErrOther says that a file of results is from another machine, other versions or other records.
var ErrOther = errors.New("the results are of another study")

// A Journal is the results of a study, in memory and in a file.
type Journal struct {
	Header  Header
	Results []Result

	file *os.File
	work map[turn]time.Duration // the time of all steps of a repetition
}

// ReadJournal reads results, of a file that nothing is added to.
func ReadJournal(r io.Reader) (*Journal, error) {
	j := &Journal{work: map[turn]time.Duration{}}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	_, err = j.parse(text)
	return j, err
}

// OpenJournal opens the file of results, or makes it. A rest after the last whole repetition is cut
// off. A file with another header is ErrOther, unless again is set: then its results are removed. A
// file that is no journal does not change in any case.
func OpenJournal(path string, h Header, again bool) (_ *Journal, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f, work: map[turn]time.Duration{}}
	begun := bytes.HasPrefix(text, []byte(marker)) || strings.HasPrefix(marker, string(text))
	if begun && (again || bytes.Count(text, []byte("\n")) < 2) { // a file that was cut off in its head has no results
		if err := f.Truncate(0); err != nil {
			return nil, err
		}
		j.Header = h
		return j, j.begin()
	}
	whole, err := j.parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if difference := j.Header.differs(h); difference != "" {
		return nil, fmt.Errorf("%s: %w: %s", path, ErrOther, difference)
	}
	return j, f.Truncate(int64(whole))
}

// differs names the first difference.
func (h Header) differs(other Header) string {
	switch {
	case h.Subject != other.Subject:
		return fmt.Sprintf("of %s, not of %s", h.Subject, other.Subject)
	case h.Machine != other.Machine:
		return fmt.Sprintf("the machine was %s, and is %s", h.Machine, other.Machine)
	}
	for module, version := range other.Modules {
		if was, ok := h.Modules[module]; ok && was != version {
			return fmt.Sprintf("%s was %s, and is %s", module, cmp.Or(was, "unknown"), cmp.Or(version, "unknown"))
		}
	}
	return ""
}

func (j *Journal) begin() error {
	text, err := json.Marshal(j.Header)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(j.file, "%s%s\n%s\n", marker, text, strings.Join(columns, ","))
	return err
}

// parse reads the text of a file, and returns how much of it is whole repetitions.
func (j *Journal) parse(text []byte) (whole int, err error) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	header, ok := bytes.CutPrefix(first, []byte(marker))
	if !ok {
		return 0, errors.New("this is no file of results of a study")
	}
	if err := json.Unmarshal(header, &j.Header); err != nil {
		return 0, fmt.Errorf("the first line: %w", err)
	}
	if j.Header.Format != Format {
		return 0, fmt.Errorf("results of format %d; this version reads %d", j.Header.Format, Format)
	}
	head := strings.Join(columns, ",") + "\n"
	rest, ok = bytes.CutPrefix(rest, []byte(head))
	if !ok {
		return 0, errors.New("the second line does not name the columns")
	}
	whole = len(text) - len(rest)
	var open []Result // of a repetition that may not be whole
	for {
		line, behind, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			return whole, nil // the last line was cut off
		}
		r, err := parseLine(string(line))
		if err != nil {
			return 0, fmt.Errorf("line %d: %w", bytes.Count(text[:len(text)-len(rest)], []byte("\n"))+1, err)
		}
		rest = behind
		if len(open) > 0 && (open[0].Cell != r.Cell || open[0].Repetition != r.Repetition) {
			open = nil
		}
		if open = append(open, r); r.Step == Update {
			j.take(open)
			open, whole = nil, len(text)-len(rest)
		}
	}
}

func parseLine(line string) (r Result, err error) {
	cells, err := csv.NewReader(strings.NewReader(line)).Read()
	if err != nil || len(cells) != len(columns) {
		return r, fmt.Errorf("%d columns of %d", len(cells), len(columns))
	}
	number := func(i int) (n float64) {
		if err == nil {
			n, err = strconv.ParseFloat(cells[i], 64)
		}
		return n
	}
	r.Engine, r.Strategy, r.Step = cells[0], cells[1], Step(cells[6])
	r.Together, r.Durable = cells[2] == together, cells[3] == synced
	r.Records, r.Repetition = int(number(4)), int(number(5))
	r.Nanoseconds, r.Allocations, r.AllocBytes = number(7), number(8), number(9)
	r.FileBytes, r.LogicalBytes = number(10), number(11)
	if err == nil && !slices.Contains(Steps, r.Step) {
		err = fmt.Errorf("a step %q", r.Step)
	}
	return r, err
}

// Words of the columns insert and sync.
const (
	together, single = "bulk", "single"
	synced, unsynced = "synced", "none"
)

func (r Result) line() string {
	insert, sync := single, unsynced
	if r.Together {
		insert = together
	}
	if r.Durable {
		sync = synced
	}
	return fmt.Sprintf("%s,%s,%s,%s,%d,%d,%s,%.1f,%.3f,%.1f,%.1f,%.1f\n", r.Engine, r.Strategy, insert, sync, r.Records, r.Repetition,
		r.Step, r.Nanoseconds, r.Allocations, r.AllocBytes, r.FileBytes, r.LogicalBytes)
}

// passes is how often a step goes over all records. Each is also read once outside of the steps.
var passes = map[Step]float64{Insert: 1, Read: 0.5 + 1, ReadMany: 0.33, FieldSum: 1, Update: 0.5}

// take notes a whole repetition.
func (j *Journal) take(results []Result) {
	var work float64
	for _, r := range results {
		work += r.Nanoseconds * passes[r.Step] * float64(r.Records)
	}
	j.work[turn{results[0].Cell, results[0].Repetition}] = time.Duration(work)
	j.Results = append(j.Results, results...)
}

// Has says whether a repetition of a cell is there.
func (j *Journal) Has(c Cell, rep int) bool {
	_, has := j.work[turn{c, rep}]
	return has
}

// Add appends a repetition.
func (j *Journal) Add(results []Result) error {
	j.take(results)
	var text strings.Builder
	for _, r := range results {
		text.WriteString(r.line())
	}
	_, err := j.file.WriteString(text.String())
	return err
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// WriteJSON writes header and results as one document.
func (j *Journal) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(struct {
		Header  Header   `json:"header"`
		Results []Result `json:"results"`
	}{j.Header, j.Results})
}
