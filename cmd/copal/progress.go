package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on standard error how far a command is, if a person looks at it. The
// nil progress shows nothing.
type progress struct {
	out  *later
	what string
	unit []progressbar.Option
	next time.Time                // when it is to be drawn again
	bar  *progressbar.ProgressBar // nil until there is a total
}

// What is done in a moment shows no bar.
const (
	progressAfter = 250 * time.Millisecond
	progressEvery = 100 * time.Millisecond
)

// later drops what is written to it up to a moment. A bar that begins with the command, but is shown later, knows how
// quick it has been since then.
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

// newProgress counts bytes. It returns nil unless standard error is a terminal.
func (a *app) newProgress(what string) *progress {
	return a.newBar(what, progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true))
}

// newCount counts entries, or what noun says: "keys". It returns nil unless standard error is a terminal.
func (a *app) newCount(what, noun string) *progress {
	return a.newBar(what, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(noun))
}

func (a *app) newBar(what string, unit ...progressbar.Option) *progress {
	if !isTerminal(a.stderr) {
		return nil
	}
	return newProgressOn(a.stderr, time.Now().Add(progressAfter), what, unit...)
}

func newProgressOn(w io.Writer, from time.Time, what string, unit ...progressbar.Option) *progress {
	return &progress{out: &later{Writer: w, from: from}, what: what, unit: unit}
}

// show says that done of total have been dealt with. A total that is negative is not known.
func (p *progress) show(done, total int64) {
	if p == nil {
		return
	}
	if total == 0 {
		total = 1 // of nothing all is done
	}
	if p.bar == nil {
		p.begin(total)
	}
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(progressEvery)
		p.set(done, total)
	}
}

func (p *progress) begin(total int64) {
	p.clear()
	p.bar = progressbar.NewOptions64(total, append(p.unit,
		progressbar.OptionSetWriter(p.out),
		progressbar.OptionSetDescription(p.what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetSpinnerChangeInterval(0), // or it would be drawn by a goroutine that does not end
		progressbar.OptionClearOnFinish(),
	)...)
	p.bar.RenderBlank() // its clock begins
}

func (p *progress) set(done, total int64) {
	if total > 0 {
		if total > p.bar.GetMax64() {
			p.bar.ChangeMax64(total)
		}
		done = min(done, total)
	}
	p.bar.Set64(done)
}

// describe says what is done now, before the bar.
func (p *progress) describe(what string) {
	if p == nil {
		return
	}
	p.what = what
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

// wait says that nothing can be counted yet, since something else is done first.
func (p *progress) wait(first string, since time.Time) {
	if p != nil && p.bar == nil {
		fmt.Fprintf(p.out, "\r%s: %s [%v]   ", p.what, first, time.Since(since).Round(time.Second))
	}
}

// clear removes what was shown from the terminal.
func (p *progress) clear() {
	switch {
	case p == nil || !p.out.passed:
	case p.bar != nil:
		p.bar.Clear()
	default:
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", 78))
	}
}
