package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/ndjson"
)

// JSONTime is a time that JSON output writes as an export does.
type JSONTime time.Time

func (t JSONTime) MarshalJSON() ([]byte, error) { return ndjson.AppendTime(nil, time.Time(t)), nil }

// Expiry returns the deadline of an entry, nil for none.
func Expiry(raw *copal.Raw, key []byte) (*JSONTime, error) {
	deadline, err := raw.Deadline(key)
	if err != nil || deadline.IsZero() {
		return nil, err
	}
	return (*JSONTime)(&deadline), nil
}

// ParseTTL reads a time to live as time.ParseDuration does, and also days: 36h, 1d12h, 90d.
func ParseTTL(text string) (time.Duration, error) {
	hours := day.ReplaceAllStringFunc(text, func(days string) string {
		n, err := strconv.ParseInt(days[:len(days)-1], 10, 64)
		if err != nil || n > maxDays {
			return days // which is no duration
		}
		return strconv.FormatInt(n*24, 10) + "h"
	})
	d, err := time.ParseDuration(hours)
	switch {
	case err != nil:
		return 0, UsageError(strconv.Quote(text) + " is no time to live; one is written like 90s, 15m, 36h or 7d")
	case d <= 0:
		return 0, UsageError("a time to live of " + text + "; it must be positive")
	}
	return d, nil
}

const maxDays = 100_000 // which a time.Duration holds

var day = regexp.MustCompile(`[0-9]+d`)

// ParseDeadlineAt reads a time to come as JSON output has it: 2030-12-31T23:59:59Z.
func ParseDeadlineAt(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case err != nil:
		return t, UsageError(strconv.Quote(text) + " is no moment; one is written like 2030-12-31T23:59:59Z")
	case time.Until(t) <= 0:
		return t, UsageError(text + " has passed")
	}
	return t, nil
}

// ShowTTL returns a time to live, rounded for a person, as ParseTTL reads it.
func ShowTTL(left time.Duration) string {
	const most = 100 * 24 * time.Hour
	switch {
	case left >= most:
		return ShowDays(left.Milliseconds())
	case left > time.Minute:
		return ShowSpan(left.Round(time.Second))
	case left > time.Second:
		return left.Round(100 * time.Millisecond).String()
	}
	return left.Round(time.Millisecond).String()
}

// ShowDays does the same as ShowTTL for many days, also for more than a time.Duration holds.
func ShowDays(millis int64) string {
	const halfDay = 12 * 60 * 60 * 1000
	return fmt.Sprintf("%dd", (millis/halfDay+1)/2)
}

// ShowSpan formats d as ParseTTL reads it, with days for exactly one day and from two days on: 36h,
// 1d, 2d, 3d1h30m.
func ShowSpan(d time.Duration) string {
	const day = 24 * time.Hour
	days := ""
	if d >= 2*day || d == day {
		days, d = fmt.Sprintf("%dd", d/day), d%day
	}
	if d == 0 && days != "" {
		return days
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} { // 2h0m0s
		if short, is := strings.CutSuffix(text, zero); is {
			text = short + zero[:1]
		}
	}
	return days + text
}

// ParseKeep returns the time for which history is kept.
func ParseKeep(text string) (time.Duration, error) {
	switch text {
	case "ever":
		return copal.Forever, nil
	case "none":
		return 0, nil
	}
	d, err := ParseTTL(text)
	if err != nil {
		return 0, UsageError(fmt.Sprintf("%q is no time to keep history; one is written like 36h or 7d, or it is ever or none", text))
	}
	return d, nil
}

// ParseDeadline returns the change of a deadline that TIME names.
func ParseDeadline(text string) (change func(db *copal.DB, key []byte) error, err error) {
	if text == "none" {
		return func(db *copal.DB, key []byte) error { return db.Raw().Persist(key) }, nil
	}
	if ttl, err := ParseTTL(text); err == nil {
		return func(db *copal.DB, key []byte) error { return db.Raw().Expire(key, ttl) }, nil
	} else if _, failed := time.Parse(time.RFC3339Nano, text); failed != nil {
		return nil, err
	}
	t, err := ParseDeadlineAt(text)
	return func(db *copal.DB, key []byte) error { return db.Raw().ExpireAt(key, t) }, err
}
