package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/schollz/progressbar/v3"
)

func shownOn(out *bytes.Buffer, from time.Time) *progress {
	return newProgressOn(out, from, "checking", progressbar.OptionShowCount())
}

func TestProgressIsShownAndCleared(t *testing.T) {
	for _, total := range []int64{100, -1} {
		var out bytes.Buffer
		p := shownOn(&out, time.Time{})
		p.show(10, total)
		if !strings.Contains(out.String(), "checking") {
			t.Errorf("of %d: %q", total, out.String())
		}
		p.clear()
		if shown := out.String(); strings.Trim(shown[strings.LastIndex(strings.TrimRight(shown, "\r"), "\r"):], " \r") != "" {
			t.Errorf("of %d, cleared: %q", total, shown)
		}
	}
}

func TestProgressOfAMomentIsNotShown(t *testing.T) {
	var out bytes.Buffer
	p := shownOn(&out, time.Now().Add(time.Hour))
	p.show(10, 100)
	p.clear()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}

func TestProgressWaits(t *testing.T) {
	var out bytes.Buffer
	p := shownOn(&out, time.Time{})
	p.wait("sorting keys", time.Now().Add(-3*time.Hour))
	if got := out.String(); !strings.HasPrefix(got, "\rchecking: sorting keys [3h0m") {
		t.Errorf("%q", got)
	}
	p.show(1, 7)
	if got := out.String(); !strings.Contains(got, "\r"+strings.Repeat(" ", 40)) || !strings.Contains(got, "1/7") {
		t.Errorf("%q", got)
	}
}

func TestProgressNeedsATerminal(t *testing.T) {
	p := newApp(nil, &bytes.Buffer{}, &bytes.Buffer{}).newProgress("checking")
	if p != nil {
		t.Error("there is one without")
	}
	p.show(1, 2)
	p.clear()
}

func TestColoursNeedATerminal(t *testing.T) {
	if got := painterFor(&bytes.Buffer{}).paint(styleKey, "key"); got != "key" {
		t.Errorf("%q", got)
	}
	if got := painter(true).paint(styleKey, "key"); got != "\x1b[36mkey\x1b[0m" {
		t.Errorf("%q", got)
	}
}

func TestMeterEnds(t *testing.T) {
	var out bytes.Buffer
	m := &meter{bar: shownOn(&out, time.Time{}), total: 7, stop: make(chan struct{}), done: make(chan struct{})}
	m.add()
	m.bar.show(m.n.Load(), m.total)
	go m.run()
	m.end()
	m.end()
	if shown := out.String(); !strings.Contains(shown, "1/7") && !strings.Contains(shown, "14%") {
		t.Errorf("%q", shown)
	}
	var none *meter
	none.add()
	none.end()
}
