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
	bar  *progressbar.ProgressBar // nil until the total is known
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
	return &progress{app: a, what: what, unit: unit}
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
		p.bar = progressbar.NewOptions64(total, append(p.unit,
			progressbar.OptionSetWriter(p.app.stderr),
			progressbar.OptionSetDescription(p.what),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond),
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
