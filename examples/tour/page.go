package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// page is the output of the tour: plain lines, and progress bars on a terminal.
type page struct {
	out      io.Writer
	terminal bool
	width    int
}

func newPage(out io.Writer) *page {
	p := &page{out: out, width: 100}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal = true
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= 40 {
			p.width = width
		}
	}
	return p
}

// title begins a stop.
func (p *page) title(text string) {
	fmt.Fprintf(p.out, "\n%s\n%s\n", text, strings.Repeat("─", len([]rune(text))))
}

// say prints a line.
func (p *page) say(format string, args ...any) {
	fmt.Fprintln(p.out, strings.TrimRight("  "+fmt.Sprintf(format, args...), " "))
}

// row prints a name and a text about it.
func (p *page) row(name, format string, args ...any) {
	fmt.Fprintf(p.out, "  %-18s  %s\n", name, fmt.Sprintf(format, args...))
}

// command prints a line to be typed.
func (p *page) command(text string) { fmt.Fprintf(p.out, "      %s\n", text) }

// verbatim prints a line of a file, as far as it fits, without control characters.
func (p *page) verbatim(line string) {
	runes := []rune(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, line))
	if most := p.width - 5; len(runes) > most {
		runes = append(runes[:most], '…')
	}
	fmt.Fprintf(p.out, "    %s\n", string(runes))
}

// bar shows progress, on a terminal. The zero bar shows nothing.
type bar struct{ shown *progressbar.ProgressBar }

func (p *page) bar(what string, steps int) bar {
	if !p.terminal {
		return bar{}
	}
	return bar{progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription("  "+what),
		progressbar.OptionSetWidth(30), progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false))}
}

func (b bar) step() {
	if b.shown != nil {
		b.shown.Add(1)
	}
}

// clear makes room for a line; the bar comes back with the next step.
func (b bar) clear() {
	if b.shown != nil {
		b.shown.Clear()
	}
}

func (b bar) end() {
	if b.shown != nil {
		b.shown.Finish()
	}
}

// number groups digits by thousands.
func number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func since(start time.Time) time.Duration { return time.Since(start).Round(100 * time.Microsecond) }

// rate says how fast n records of so many bytes went.
func rate(n int, bytes int64, took time.Duration) string {
	seconds := max(took.Seconds(), 1e-9)
	return fmt.Sprintf("%s in %v, %s records/s, %.0f MB/s", number(n), took.Round(time.Millisecond), number(int(float64(n)/seconds)), float64(bytes)/1e6/seconds)
}
