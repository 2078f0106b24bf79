package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress shows the progress of a command on standard error, if that is a terminal. The nil
// Progress shows nothing.
type Progress struct {
	out  *later
	what string
	unit []progressbar.Option
	next time.Time                // time of the next drawing
	bar  *progressbar.ProgressBar // nil until there is a total
}

// A short run shows no bar.
const (
	progressAfter = 250 * time.Millisecond
	progressEvery = 100 * time.Millisecond
)

// later drops writes up to a moment. A bar that begins with the command, but is shown later, has
// its rate since the beginning.
type later struct {
	io.Writer
	from   time.Time
	passed bool // something has been written
}

func (l *later) Write(p []byte) (int, error) {
	if !l.passed && time.Now().Before(l.from) {
		return len(p), nil
	}
	l.passed = true
	return l.Writer.Write(p)
}

// NewProgress counts bytes. It returns nil unless standard error is a terminal.
func (a *App) NewProgress(what string) *Progress {
	return a.NewBar(what, progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true))
}

// NewCount counts entries, or units of noun, such as "keys". It returns nil unless standard error
// is a terminal.
func (a *App) NewCount(what, noun string) *Progress {
	return a.NewBar(what, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(noun))
}

// NewBar returns a bar with its own unit, or nil unless standard error is a terminal.
func (a *App) NewBar(what string, unit ...progressbar.Option) *Progress {
	if !IsTerminal(a.Stderr) {
		return nil
	}
	return newProgressOn(a.Stderr, time.Now().Add(progressAfter), what, unit...)
}

func newProgressOn(w io.Writer, from time.Time, what string, unit ...progressbar.Option) *Progress {
	return &Progress{out: &later{Writer: w, from: from}, what: what, unit: unit}
}

// Show sets the progress: done of total. A negative total is unknown.
func (p *Progress) Show(done, total int64) {
	if p == nil {
		return
	}
	if total == 0 {
		total = 1 // so that 0 of 0 shows as done
	}
	if p.bar == nil {
		p.begin(total)
	}
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(progressEvery)
		p.set(done, total)
	}
}

func (p *Progress) begin(total int64) {
	p.Clear()
	p.bar = progressbar.NewOptions64(total, append(p.unit,
		progressbar.OptionSetWriter(p.out),
		progressbar.OptionSetDescription(p.what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetSpinnerChangeInterval(0), // or it would be drawn by a goroutine that does not end
		progressbar.OptionClearOnFinish(),
	)...)
	p.bar.RenderBlank() // its clock begins
}

func (p *Progress) set(done, total int64) {
	if total > 0 {
		if total > p.bar.GetMax64() {
			p.bar.ChangeMax64(total)
		}
		done = min(done, total)
	}
	p.bar.Set64(done)
}

// Describe sets the text before the bar.
func (p *Progress) Describe(what string) {
	if p == nil {
		return
	}
	p.what = what
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

// wait shows the step that comes first, while nothing can be counted yet.
func (p *Progress) wait(first string, since time.Time) {
	if p != nil && p.bar == nil {
		fmt.Fprintf(p.out, "\r%s: %s [%v]   ", p.what, first, time.Since(since).Round(time.Second))
	}
}

// Clear removes the bar from the terminal.
func (p *Progress) Clear() {
	switch {
	case p == nil || !p.out.passed:
	case p.bar != nil:
		p.bar.Clear()
	default:
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", 78))
	}
}
