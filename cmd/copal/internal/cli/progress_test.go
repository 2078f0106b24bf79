package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/schollz/progressbar/v3"
)

func shownOn(out *bytes.Buffer, from time.Time) *Progress {
	return newProgressOn(out, from, "checking", progressbar.OptionShowCount())
}

func TestProgressIsShownAndCleared(t *testing.T) {
	for _, total := range []int64{100, -1} {
		var out bytes.Buffer
		p := shownOn(&out, time.Time{})
		p.Show(10, total)
		if !strings.Contains(out.String(), "checking") {
			t.Errorf("of %d: %q", total, out.String())
		}
		p.Clear()
		if shown := out.String(); strings.Trim(shown[strings.LastIndex(strings.TrimRight(shown, "\r"), "\r"):], " \r") != "" {
			t.Errorf("of %d, cleared: %q", total, shown)
		}
	}
}

func TestProgressOfAMomentIsNotShown(t *testing.T) {
	var out bytes.Buffer
	p := shownOn(&out, time.Now().Add(time.Hour))
	p.Show(10, 100)
	p.Clear()
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
	p.Show(1, 7)
	if got := out.String(); !strings.Contains(got, "\r"+strings.Repeat(" ", 40)) || !strings.Contains(got, "1/7") {
		t.Errorf("%q", got)
	}
}

func TestProgressNeedsATerminal(t *testing.T) {
	p := NewApp(nil, &bytes.Buffer{}, &bytes.Buffer{}).NewProgress("checking")
	if p != nil {
		t.Error("there is one without")
	}
	p.Show(1, 2)
	p.Clear()
}

func TestColoursNeedATerminal(t *testing.T) {
	if got := PainterFor(&bytes.Buffer{}).Paint(StyleKey, "key"); got != "key" {
		t.Errorf("%q", got)
	}
	if got := Painter(true).Paint(StyleKey, "key"); got != "\x1b[36mkey\x1b[0m" {
		t.Errorf("%q", got)
	}
}

func TestMeterEnds(t *testing.T) {
	var out bytes.Buffer
	m := &meter{bar: shownOn(&out, time.Time{}), total: 7, stop: make(chan struct{}), done: make(chan struct{})}
	m.Add()
	m.bar.Show(m.n.Load(), m.total)
	go m.run()
	m.End()
	m.End()
	if shown := out.String(); !strings.Contains(shown, "1/7") && !strings.Contains(shown, "14%") {
		t.Errorf("%q", shown)
	}
	var none *meter
	none.Add()
	none.End()
}
