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
	bar  *progressbar.ProgressBar // nil until the total is known
}

// newProgress returns nil unless standard error is a terminal.
func (a *app) newProgress(what string) *progress {
	if !isTerminal(a.stderr) {
		return nil
	}
	return &progress{app: a, what: what}
}

// show says that done of total bytes have been dealt with.
func (p *progress) show(done, total int64) {
	if p == nil {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(max(total, 1),
			progressbar.OptionSetWriter(p.app.stderr),
			progressbar.OptionSetDescription(p.what),
			progressbar.OptionShowBytes(true),
			progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	p.bar.Set64(min(done, max(total, 1)))
}

// clear removes the bar from the terminal.
func (p *progress) clear() {
	if p != nil && p.bar != nil {
		p.bar.Clear()
	}
}
