package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func shownOn(out *bytes.Buffer, from time.Time) *progress {
	return &progress{app: newApp(nil, out, out), what: "checking", from: from}
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
