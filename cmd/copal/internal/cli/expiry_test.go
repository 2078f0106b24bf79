package cli

import (
	"math"
	"testing"
	"time"
)

// TestShowTTL: the text is rounded for a person, and the command reads it.
func TestShowTTL(t *testing.T) {
	const day = 24 * time.Hour
	for left, want := range map[time.Duration]string{
		1500 * time.Microsecond: "2ms", 59*time.Second + 940*time.Millisecond: "59.9s", 90 * time.Minute: "1h30m", 36 * time.Hour: "36h",
		day: "1d", 2*day + time.Hour: "2d1h", 7*day - time.Second: "6d23h59m59s", 7 * day: "7d", 100*day - time.Millisecond: "100d",
		3650*day - time.Minute: "3650d", 3650*day + 11*time.Hour: "3650d", 3650*day + 13*time.Hour: "3651d", math.MaxInt64: "106752d",
	} {
		text := ShowTTL(left)
		if text != want {
			t.Errorf("%v is shown as %s, want %s", left, text, want)
		}
		if left > 100_000*day {
			continue // which the command takes as a moment alone
		}
		if back, err := ParseTTL(text); err != nil || back < left-12*time.Hour || back > left+12*time.Hour {
			t.Errorf("%s is read as %v, %v", text, back, err)
		}
	}
	if text := ShowDays(math.MaxInt64); text != "106751991167d" {
		t.Errorf("the last deadline is shown as %s", text)
	}
}
