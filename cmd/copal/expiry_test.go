package main

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/copaldb/copal"
)

// TestShowTTL: what is shown is rounded to what a person wants to know, and can be given back to the command.
func TestShowTTL(t *testing.T) {
	const day = 24 * time.Hour
	for left, want := range map[time.Duration]string{
		1500 * time.Microsecond: "2ms", 59*time.Second + 940*time.Millisecond: "59.9s", 90 * time.Minute: "1h30m", 36 * time.Hour: "36h",
		day: "1d", 2*day + time.Hour: "2d1h", 7*day - time.Second: "6d23h59m59s", 7 * day: "7d", 100*day - time.Millisecond: "100d",
		3650*day - time.Minute: "3650d", 3650*day + 11*time.Hour: "3650d", 3650*day + 13*time.Hour: "3651d", math.MaxInt64: "106752d",
	} {
		text := showTTL(left)
		if text != want {
			t.Errorf("%v is shown as %s, want %s", left, text, want)
		}
		if left > 100_000*day {
			continue // which the command takes as a moment alone
		}
		if back, err := parseTTL(text); err != nil || back < left-12*time.Hour || back > left+12*time.Hour {
			t.Errorf("%s is read as %v, %v", text, back, err)
		}
	}
	if text := showDays(math.MaxInt64); text != "106751991167d" {
		t.Errorf("the last deadline is shown as %s", text)
	}
}

// A deadline that RFC 3339 cannot name is a number, in every command that shows one.
func TestDeadlineBeyondTheYear9999(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	far := time.UnixMilli(1 << 50)
	if err := db.Raw().SetUntil([]byte("far"), []byte("1"), far); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ttl", dir, "far", "--json"}, {"get", dir, "far", "--json"}, {"ls", dir, "--json"}, {"scan", dir, "--json"}} {
		var out, errs bytes.Buffer
		if code := newApp(nil, &out, &errs).run(args); code != 0 {
			t.Errorf("%v: exit %d, %s", args, code, &errs)
			continue
		}
		var line struct{ Expires int64 }
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Expires != far.UnixMilli() {
			t.Errorf("%v: %s: %v", args, &out, err)
		}
	}
}
