package cli

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
)

// noon is the clock of the tests: 2026-11-24 12:00:30, an hour east of Greenwich.
var noon = time.Date(2026, 11, 24, 12, 0, 30, 0, time.FixedZone("", 3600))

func TestParseMoment(t *testing.T) {
	a := &App{Now: func() time.Time { return noon }}
	for _, c := range []struct{ text, want string }{
		{"10m", "2026-11-24 11:50:30"},
		{"10m ago", "2026-11-24 11:50:30"},
		{"10 minutes ago", "2026-11-24 11:50:30"},
		{"1 minute ago", "2026-11-24 11:59:30"},
		{"1h30m", "2026-11-24 10:30:30"},
		{"1h 30m ago", "2026-11-24 10:30:30"},
		{"1 hour, 30 minutes ago", "2026-11-24 10:30:30"},
		{"1.5h", "2026-11-24 10:30:30"},
		{"2 days ago", "2026-11-22 12:00:30"},
		{"2d12h", "2026-11-22 00:00:30"},
		{"1 week ago", "2026-11-17 12:00:30"},
		{"90 secs ago", "2026-11-24 11:59:00"},
		{"0s", "2026-11-24 12:00:30"},
		{"10:00", "2026-11-24 10:00:00"},
		{"10:00:05", "2026-11-24 10:00:05"},
		{"2026-11-24", "2026-11-24 00:00:00"},
		{"2026-11-23 23:59", "2026-11-23 23:59:00"},
		{"2026-11-23 23:59:59", "2026-11-23 23:59:59"},
		{"2026-11-23T23:59", "2026-11-23 23:59:00"},
		{"2026-11-24T10:00:30Z", "2026-11-24 11:00:30"},
		{"2026-11-24T10:00:30.250+01:00", "2026-11-24 10:00:30.25"},
		{"2026-11-24 10:00:30.250", "2026-11-24 10:00:30.25"},
		{" 10:00 ", "2026-11-24 10:00:00"},
	} {
		m, err := a.parseMoment(c.text)
		if got := m.time.In(noon.Location()).Format("2006-01-02 15:04:05.999"); err != nil || m.Seq != nil || got != c.want {
			t.Errorf("%q is %s, %v; want %s", c.text, got, err, c.want)
		}
	}
}

func TestParseMomentOfRecord(t *testing.T) {
	a := &App{Now: func() time.Time { return noon }}
	for text, want := range map[string]uint64{"0": 0, "4711": 4711, "#4711": 4711, "2026": 2026, "18446744073709551614": 1<<64 - 2} {
		if m, err := a.parseMoment(text); err != nil || m.Seq == nil || *m.Seq != want {
			t.Errorf("%q is %v, %v", text, m.Seq, err)
		}
	}
	if m, err := a.parseMoment("now"); err != nil || m.Seq != nil || !m.time.IsZero() {
		t.Errorf("now is %v, %v", m, err)
	}
}

func TestParseMomentRefuses(t *testing.T) {
	a := &App{Now: func() time.Time { return noon }}
	for text, want := range map[string]string{
		"":                     "is no moment",
		"ago":                  "is no moment",
		"yesterday":            "is no moment",
		"10":                   "",
		"10 fortnights ago":    "is no moment",
		"2 months ago":         "is no moment",
		"-10m":                 "is no moment",
		"10m later":            "is no moment",
		"m":                    "is no moment",
		"#":                    "is no moment",
		"#-1":                  "is no moment",
		"99999999999999 weeks": "is no moment",
		"2026-13-01":           "is no moment",
		"25:00":                "is no moment",
		"12:01":                "has not come yet: it is 2026-11-24 12:00:30",
		"2026-11-25":           "has not come yet",
		"2027-01-01T00:00:00Z": "has not come yet",
	} {
		_, err := a.parseMoment(text)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		case err != nil && !isUsage(err):
			t.Errorf("%q: %v is no mistake of the command line", text, err)
		}
	}
}

// A moment opens the store's state at the record, at the time, and now.
func TestOpenMoment(t *testing.T) {
	var out, errs bytes.Buffer
	a := NewApp(nil, &out, &errs)
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := func() uint64 {
		s, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Seq()
	}
	var at []uint64
	for _, value := range []string{"one", "two"} {
		if err := db.Raw().Set([]byte("k"), []byte(value)); err != nil {
			t.Fatal(err)
		}
		at = append(at, now())
	}
	for text, want := range map[string]string{"#" + strconv.FormatUint(at[0], 10): "one", strconv.FormatUint(at[1], 10): "two", "now": "two", "0": "", "0s": "two"} {
		m, err := a.parseMoment(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.open(db)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := db.Raw().At(s).Load([]byte("k"))
		if string(got) != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, copal.ErrNotFound) {
			t.Errorf("%s shows %q, %v; want %q", text, got, err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
