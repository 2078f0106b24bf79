package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/ndjson"
)

// jsonTime is a time that JSON output writes as an export does.
type jsonTime time.Time

func (t jsonTime) MarshalJSON() ([]byte, error) { return ndjson.AppendTime(nil, time.Time(t)), nil }

// expiry is when an entry expires, nil for one that does not.
func expiry(raw *copal.Raw, key []byte) (*jsonTime, error) {
	deadline, err := raw.Deadline(key)
	if err != nil || deadline.IsZero() {
		return nil, err
	}
	return (*jsonTime)(&deadline), nil
}

// parseTTL reads a time to live as time.ParseDuration does, and also days: 36h, 1d12h, 90d.
func parseTTL(text string) (time.Duration, error) {
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
		return 0, usageError{strconv.Quote(text) + " is no time to live; one is written like 90s, 15m, 36h or 7d"}
	case d <= 0:
		return 0, usageError{"a time to live of " + text + "; it must be positive"}
	}
	return d, nil
}

const maxDays = 100_000 // which a time.Duration holds

var day = regexp.MustCompile(`[0-9]+d`)

// parseDeadlineAt reads a time to come as JSON output has it: 2030-12-31T23:59:59Z.
func parseDeadlineAt(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case err != nil:
		return t, usageError{strconv.Quote(text) + " is no moment; one is written like 2030-12-31T23:59:59Z"}
	case time.Until(t) <= 0:
		return t, usageError{text + " has passed"}
	}
	return t, nil
}

// showTTL is the time that is left, rounded to what a person wants to know, as parseTTL reads it.
func showTTL(left time.Duration) string {
	const most = 100 * 24 * time.Hour
	switch {
	case left >= most:
		return showDays(left.Milliseconds())
	case left > time.Minute:
		return showSpan(left.Round(time.Second))
	case left > time.Second:
		return left.Round(100 * time.Millisecond).String()
	}
	return left.Round(time.Millisecond).String()
}

// showDays is showTTL of many days, also of more than a time.Duration holds.
func showDays(millis int64) string {
	const halfDay = 12 * 60 * 60 * 1000
	return fmt.Sprintf("%dd", (millis/halfDay+1)/2)
}
