package exposition

import (
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ContentType is the type of the text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Type is the type of a metric.
type Type string

const (
	Counter Type = "counter" // only grows; its name ends with _total
	Gauge   Type = "gauge"
	Buckets Type = "histogram" // of durations, in seconds
)

// Writer writes metrics. The samples of one metric follow on each other.
type Writer struct {
	out  io.Writer
	line []byte
	err  error
}

// NewWriter returns a writer to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Metric describes the samples that follow. help is one line.
func (w *Writer) Metric(name string, is Type, help string) {
	w.line = append(append(append(append(w.line[:0], "# HELP "...), name...), ' '), escape(help, false)...)
	w.line = append(append(append(append(append(w.line, "\n# TYPE "...), name...), ' '), is...), '\n')
	w.write()
}

// One is Metric with a single sample that has no labels.
func (w *Writer) One(name string, is Type, help string, value float64) {
	w.Metric(name, is, help)
	w.Sample(name, value)
}

// Sample writes a value. labels are names and values in turn.
func (w *Writer) Sample(name string, value float64, labels ...string) {
	w.line = append(w.line[:0], name...)
	for i := 0; i+1 < len(labels); i += 2 {
		w.line = append(append(append(w.line, separator(i)), labels[i]...), `="`...)
		w.line = append(append(w.line, escape(labels[i+1], true)...), '"')
	}
	if len(labels) > 0 {
		w.line = append(w.line, '}')
	}
	w.line = append(strconv.AppendFloat(append(w.line, ' '), value, 'g', -1, 64), '\n')
	w.write()
}

func separator(i int) byte {
	if i == 0 {
		return '{'
	}
	return ','
}

func escape(text string, quoted bool) string {
	text = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(text)
	if quoted {
		text = strings.ReplaceAll(text, `"`, `\"`)
	}
	return text
}

func (w *Writer) write() {
	if w.err == nil {
		_, w.err = w.out.Write(w.line)
	}
}

// Err is the first error of writing.
func (w *Writer) Err() error { return w.err }

// bounds are the upper ends of the buckets of a Histogram, each included.
var bounds = [...]time.Duration{
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Histogram counts how long things have taken, in buckets from 10 µs to 10 s. The zero Histogram is empty. It is safe
// for concurrent use.
type Histogram struct {
	counts [len(bounds) + 1]atomic.Int64
	nanos  atomic.Int64
}

// Observe counts something that has taken so long.
func (h *Histogram) Observe(took time.Duration) {
	n := 0
	for n < len(bounds) && took > bounds[n] {
		n++
	}
	h.counts[n].Add(1)
	h.nanos.Add(int64(took))
}

// Sum is how long everything took together.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.nanos.Load()) }

// Reset forgets everything.
func (h *Histogram) Reset() {
	for i := range h.counts {
		h.counts[i].Store(0)
	}
	h.nanos.Store(0)
}

// Histogram writes the buckets of a histogram, its sum in seconds, and its count. One that is empty is left out.
func (w *Writer) Histogram(name string, h *Histogram, labels ...string) {
	var counts [len(bounds) + 1]int64
	total := int64(0)
	for i := range counts {
		total += h.counts[i].Load()
		counts[i] = total
	}
	if total == 0 {
		return
	}
	labels = labels[:len(labels):len(labels)]
	for i, n := range counts {
		end := "+Inf"
		if i < len(bounds) {
			end = strconv.FormatFloat(bounds[i].Seconds(), 'g', -1, 64)
		}
		w.Sample(name+"_bucket", float64(n), append(labels, "le", end)...)
	}
	w.Sample(name+"_sum", h.Sum().Seconds(), labels...)
	w.Sample(name+"_count", float64(total), labels...)
}
