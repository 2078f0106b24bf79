package engine

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// FuzzSnapshot opens a store with any bytes as its snapshot: it keeps its content or, with a text that was
// sealed anew, has any other; but Open returns.
func FuzzSnapshot(f *testing.F) {
	x := newIndexed(f, true)
	good := logtest.Read(f, x.mem, logtest.Index(x.mem))
	f.Add(good)
	f.Add(x.old)
	f.Add([]byte("copal index 1"))
	_, at, _, err := checkpoint.ParseTitle(good[:checkpoint.Head])
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		image := x.mem.ProcessCrash()
		forgeIndex(t, image, b)
		x.holds(t, image, "fuzzed")

		// The blocks as they were, and any text.
		text := record.Seal(append([]byte(record.Title("index")+"\n"), b...))
		forged := append(append(checkpoint.Title(0, at, int64(len(text))), good[checkpoint.Head:at]...), text...)
		image = x.mem.ProcessCrash()
		forgeIndex(t, image, forged)
		s, err := Open("db", testOptions(image))
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		for key := range x.content {
			s.Get(nil, []byte(key))
		}
		s.Close()
	})
}

// TestSnapshotKeepsDeadlines: entries expire at their deadlines, also after the store was opened from a
// snapshot.
func TestSnapshotKeepsDeadlines(t *testing.T) {
	step := 101
	if longTest() {
		step = 1
	}
	for _, died := range []bool{false, true} {
		mem, clock := vfs.NewMem(), logtest.NewClock()
		withClock := func(o *Options) { o.Clock = clock }
		s := mustOpen(t, mem, withClock)
		users, err := s.Map("users")
		if err != nil {
			t.Fatal(err)
		}
		put := func(key string, life time.Duration) {
			t.Helper()
			w := &Write{Key: []byte("users:" + key), Value: []byte("x"), Durability: Process}
			if life > 0 {
				if w.Expiry, err = s.Deadline(life); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Write(users, w); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 100 {
			put(fmt.Sprint(i), time.Duration(i)*time.Minute) // 0 stays
		}
		if died {
			snapshotNow(t, s)
			put("1", time.Hour*3)
			put("2", 0)
			put("new", 5*time.Minute)
			mem = mem.ProcessCrash()
		} else {
			mustClose(t, s)
		}
		clock.Advance(50*time.Minute - time.Millisecond)
		want := 51 // 0 and 50 to 99
		if died {
			want += 2
		}
		s = mustOpen(t, mem, withClock)
		users = s.spaces[0].maps["users"]
		if n := users.Len(); n != want {
			t.Errorf("died: %v: %d entries, want %d", died, n, want)
		}
		clock.Advance(time.Millisecond)
		if n := users.Len(); n != want-1 {
			t.Errorf("died: %v: %d entries after another, want %d", died, n, want-1)
		}
		recounted(t, s)
		mustClose(t, s)
		good := logtest.Read(t, mem, logtest.Index(mem))
		for bit := 0; bit < len(good)*8; bit += step { // the queue included
			image, bad := mem.ProcessCrash(), bytes.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			logtest.Write(t, image, logtest.Index(image), bad)
			s := mustOpen(t, image, withClock)
			if n := s.spaces[0].maps["users"].Len(); n != want-1 {
				t.Fatalf("died: %v: bit %d: %d entries, want %d", died, bit, n, want-1)
			}
			recounted(t, s)
			if n := s.spaces[0].maps["users"].Len(); n != want-1 {
				t.Fatalf("died: %v: bit %d: %d entries after a look at them, want %d", died, bit, n, want-1)
			}
			mustClose(t, s)
		}
	}
}
