package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on standard error how far a command is, if a person looks at it. The
// nil progress shows nothing.
type progress struct {
	app  *app
	what string
	unit []progressbar.Option
	from time.Time                // when the bar is shown, if the command is not through by then
	next time.Time                // when it is to be drawn again
	bar  *progressbar.ProgressBar // nil until it is shown
}

// What is done in a moment shows no bar.
const (
	progressAfter = 250 * time.Millisecond
	progressEvery = 100 * time.Millisecond
)

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
	return &progress{app: a, what: what, unit: unit, from: time.Now().Add(progressAfter)}
}

// show says that done of total have been dealt with. A total that is negative is not known.
func (p *progress) show(done, total int64) {
	if p == nil {
		return
	}
	now := time.Now()
	if now.Before(p.from) || now.Before(p.next) {
		return
	}
	p.next = now.Add(progressEvery)
	if total == 0 {
		total = 1 // of nothing all is done
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total, append(p.unit,
			progressbar.OptionSetWriter(p.app.stderr),
			progressbar.OptionSetDescription(p.what),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetSpinnerChangeInterval(0), // or it would be drawn by a goroutine that does not end
			progressbar.OptionClearOnFinish(),
		)...)
	}
	if total > 0 {
		if total > p.bar.GetMax64() {
			p.bar.ChangeMax64(total)
		}
		done = min(done, total)
	}
	p.bar.Set64(done)
}

// clear removes the bar from the terminal.
func (p *progress) clear() {
	if p != nil && p.bar != nil {
		p.bar.Clear()
	}
}
