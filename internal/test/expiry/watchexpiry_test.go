package expiry

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/test/kit"
)

// TestWatchTellsWhatExpires: a watch of a map with ExpiryEvents yields each entry that expires,
// once, soon after its deadline and in its place, also from a process without the option, and those
// that expired while there was no process.
func TestWatchTellsWhatExpires(t *testing.T) {
	dir, clock := t.TempDir(), logtest.NewClock()
	seen := map[uint64]bool{}
	var last uint64
	hear := func(db *copal.DB, n int) (list []string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for c, err := range db.Watch(ctx, copal.WithAfter(last), copal.WithPrefix([]byte("sessions:"))) {
			if err != nil {
				t.Fatalf("%v, after %q", err, list)
			}
			if seen[c.Seq] {
				t.Fatalf("record %d is told twice", c.Seq)
			}
			seen[c.Seq], last = true, c.Seq
			list = append(list, fmt.Sprint(string(c.Key), " ", c.Deleted, c.Expired, c.Deadline.IsZero()))
			if c.Expired && c.Time.Before(c.Deadline) {
				t.Errorf("%q has expired at %v, before %v", c.Key, c.Time, c.Deadline)
			}
			if n--; n == 0 {
				break
			}
		}
		return list
	}
	want := func(got []string, want ...string) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	for process := range 3 {
		db, err := copal.Open(dir, kit.WithClock(clock))
		if err != nil {
			t.Fatal(err)
		}
		var opts []copal.MapOption
		if process == 0 {
			opts = append(opts, copal.ExpiryEvents())
		}
		sessions, err := copal.OpenMap[string, int](db, "sessions", opts...)
		if err != nil {
			t.Fatal(err)
		}
		if process > 0 { // the first write brings the changes of entries that expired meanwhile
			if err := db.Raw().Set([]byte("any"), nil); err != nil {
				t.Fatal(err)
			}
			want(hear(db, 1), "sessions:late true true false")
		}
		for _, err := range []error{sessions.SetTTL("a", 1, 20*time.Millisecond), sessions.SetTTL("b", 1, time.Hour), sessions.Set("b", 2)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(25 * time.Millisecond)
		want(hear(db, 4), "sessions:a false false false", "sessions:b false false false", "sessions:b false false true", "sessions:a true true false")
		if err := sessions.SetTTL("late", 1, 30*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		want(hear(db, 1), "sessions:late false false false")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		clock.Advance(40 * time.Millisecond)
	}
}

// TestExpiryEventsInTime: an end is in the log within 100 ms of the deadline.
func TestExpiryEventsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := copal.OpenMemory(copal.ExpiryEvents())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for i := range 200 {
			if err := db.Raw().SetTTL(fmt.Append(nil, i), nil, time.Second+time.Duration(i)*7*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		left := 200
		for c, err := range db.Watch(t.Context(), copal.WithAfter(0)) {
			if err != nil {
				t.Fatal(err)
			}
			if !c.Expired {
				continue
			}
			if late := c.Time.Sub(c.Deadline); late < 0 || late > 100*time.Millisecond {
				t.Errorf("%q: %v late", c.Key, late)
			}
			if left--; left == 0 {
				break
			}
		}
	})
}

// TestRawTellsExpiry: from Raw.TellExpiry on a watch yields raw keys that expire, values and
// collections, also from a later process that did not call it.
func TestRawTellsExpiry(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for process := range 2 {
			db, err := copal.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			raw := db.Raw()
			if process == 0 {
				if err := raw.TellExpiry(); err != nil {
					t.Fatal(err)
				}
			}
			changes := db.Watch(t.Context(), copal.WithPrefix([]byte("k")))
			if err := raw.SetTTL([]byte("k1"), nil, time.Second); err != nil {
				t.Fatal(err)
			}
			if err := raw.List([]byte("k2")).PushBack(nil); err != nil {
				t.Fatal(err)
			}
			if err := raw.Expire([]byte("k2"), 2*time.Second); err != nil {
				t.Fatal(err)
			}
			var expired []string
			for c, err := range changes {
				if err != nil {
					t.Fatal(err)
				}
				if c.Expired {
					expired = append(expired, string(c.Key))
				}
				if len(expired) == 2 {
					break
				}
			}
			if fmt.Sprint(expired) != "[k1 k2]" {
				t.Errorf("process %d is told of %q", process, expired)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
