package cli

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/copaldb/copal"
)

// Moment is a state of a store that the command line names: by the number of its last record, by a
// time, or the present.
type Moment struct {
	text string // the argument, "" for none
	Seq  *uint64
	time time.Time // zero for a record and for now
}

// MomentHelp is the part of the help about moments.
const MomentHelp = `Some commands take a MOMENT of the past, as far as copal history says it is kept:
  10m, "10 minutes ago", "2 days ago", 1h30m     so long before now: ms, s, m, h, d, w
  10:00, 2026-11-24, "2026-11-24 10:00:30"       a time of the clock on the wall
  2026-11-24T10:00:30.250Z                       a time as JSON output has it
  4711                                           when this record had been written: #4711
                                                 in copal log
  now                                            the present`

// momentForms lists the forms, for messages.
const momentForms = `one is written like 10m, "2 days ago", 10:00, "2026-11-24 10:00", 2026-11-24T10:00:00Z, or as the number of a record, or now`

// parseMoment reads a moment of the past. Where a date or a zone is missing, the clock of the app
// gives it.
func (a *App) parseMoment(text string) (Moment, error) {
	now := a.Now()
	m := Moment{text: text}
	word := strings.TrimSpace(text)
	digits := strings.TrimPrefix(word, "#")
	if word == "now" {
		return m, nil
	}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		m.Seq = &n
		return m, nil
	}
	if ago, ok := parseAgo(word); ok {
		m.time = now.Add(-ago)
		return m, nil
	}
	t, ok := parseClock(word, now)
	switch {
	case !ok:
		return m, UsageError(strconv.Quote(text) + " is no moment; " + momentForms)
	case t.After(now):
		return m, UsageError(text + " has not come yet: it is " + ShowTime(now))
	}
	m.time = t
	return m, nil
}

// parseAgo reads a span before now: 10m, 1h30m, 2 days ago.
func parseAgo(text string) (ago time.Duration, ok bool) {
	rest, _ := strings.CutSuffix(text, " ago")
	for rest = strings.TrimSpace(rest); rest != ""; ok = true {
		part := spanPart.FindStringSubmatch(rest)
		if part == nil {
			return 0, false
		}
		n, err := strconv.ParseFloat(part[1], 64)
		unit := unitOf(part[2])
		sum := float64(ago) + n*float64(unit)
		if err != nil || unit == 0 || sum > math.MaxInt64/2 {
			return 0, false
		}
		ago, rest = time.Duration(sum), rest[len(part[0]):]
	}
	return ago, ok
}

var spanPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) *([a-z]+)[ ,]*`)

// unitOf returns the time of a unit's word or letter, 0 for none.
func unitOf(word string) time.Duration {
	if len(word) > 2 {
		word = strings.TrimSuffix(word, "s")
	}
	switch word {
	case "ms", "millisecond":
		return time.Millisecond
	case "s", "sec", "second":
		return time.Second
	case "m", "min", "minute":
		return time.Minute
	case "h", "hour":
		return time.Hour
	case "d", "day":
		return 24 * time.Hour
	case "w", "week":
		return 7 * 24 * time.Hour
	}
	return 0
}

// clocks are the forms of a time without a zone, those of a day first.
var clocks = []string{"15:04", "15:04:05", "2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"}

// parseClock reads a date, a time or both in the zone of now, or RFC 3339.
func parseClock(text string, now time.Time) (t time.Time, ok bool) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, true
	}
	for i, form := range clocks {
		t, err := time.ParseInLocation(form, text, now.Location())
		if err != nil {
			continue
		}
		if i < 2 {
			t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
		}
		return t, true
	}
	return time.Time{}, false
}

// open takes a snapshot of the moment, which the caller must close.
func (m Moment) open(db *copal.DB) (s *copal.Snapshot, err error) {
	switch {
	case m.Seq != nil:
		s, err = db.AsOfSeq(*m.Seq)
	case !m.time.IsZero():
		s, err = db.AsOf(m.time)
	default:
		s, err = db.Snapshot()
	}
	return s, ExplainLost(db, err)
}

// Record returns the number of the last record at the moment. past is false for the present.
func (m *Moment) Record(db *copal.DB) (seq uint64, past bool, err error) {
	switch {
	case m == nil || m.IsNow():
		return 0, false, nil
	case m.Seq != nil:
		return *m.Seq, true, nil
	}
	s, err := m.open(db)
	if err != nil {
		return 0, false, err
	}
	return s.Seq(), true, s.Close()
}

// IsNow reports whether it is the present.
func (m *Moment) IsNow() bool { return m.Seq == nil && m.time.IsZero() }

// IsBefore reports whether something came after the moment. Before nil comes nothing.
func (m *Moment) IsBefore(seq uint64, at time.Time) bool {
	switch {
	case m == nil:
		return true
	case m.Seq != nil:
		return seq > *m.Seq
	}
	return !m.IsNow() && at.UnixMilli() > m.time.UnixMilli()
}

// ShowTime returns a time for a person, to the second, in its own zone.
func ShowTime(t time.Time) string { return t.Format("2006-01-02 15:04:05") }
