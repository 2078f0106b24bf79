package follow_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestFollowerMissesNothingAfterAnError: a follower whose look ends with an error, at whatever operation, shows
// everything after the next one, also the record at which it ended.
func TestFollowerMissesNothingAfterAnError(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpRead, vfs.OpOpen} {
		failed := 0
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			writer := storetest.Open(t, mem)
			for i := range 20 {
				storetest.Set(t, writer, fmt.Sprint("k", i), "old")
			}
			broken := false
			failing := &vfs.Fault{Kinds: kind, N: n, Match: func(string) bool { return broken }, Err: syscall.EIO}
			reader := storetest.Open(t, vfs.Inject(mem, failing), func(o *engine.Options) { o.ReadOnly = true })
			for i := range 20 {
				switch i % 3 {
				case 0:
					storetest.Set(t, writer, fmt.Sprint("k", i), "new")
				case 1:
					if _, err := writer.Delete(nil, fmt.Append(nil, "k", i), engine.Process); err != nil {
						t.Fatal(err)
					}
				}
			}
			broken = true
			err := reader.Refresh()
			broken = false
			if err != nil && !errors.Is(err, syscall.EIO) {
				t.Fatalf("%v %d: %v", kind, n, err)
			}
			if err := reader.Refresh(); err != nil {
				t.Fatalf("%v %d: the look after %v", kind, n, err)
			}
			if got, want := storetest.Content(t, reader), storetest.Content(t, writer); got != want {
				t.Fatalf("%v %d: it holds\n%s, want\n%s", kind, n, got, want)
			}
			storetest.Close(t, reader)
			storetest.Close(t, writer)
			if err == nil {
				break
			}
			failed++
		}
		if failed == 0 {
			t.Errorf("%v: nothing failed", kind)
		}
	}
}

// TestFollowWriteThatWasCutBack: without a ring, a follower may see records of a write that is cut
// back then because there is no room for the rest. It shows the records written in their place,
// whether or not the new records end where the old ones did.
func TestFollowWriteThatWasCutBack(t *testing.T) {
	for _, group := range []bool{false, true} {
		for next := -1; next < 40; next++ { // length of the values that are written next; -1 for the same once more
			mem := vfs.NewMem()
			look := func() {}
			full := &vfs.Fault{Kinds: vfs.OpWrite, Match: logtest.IsLog, Short: true, Err: syscall.ENOSPC}
			cut := &vfs.Fault{Kinds: vfs.OpTruncate, Match: func(string) bool { look(); return false }}
			faulty := vfs.Inject(mem, full, cut)
			writer := storetest.Open(t, faulty, func(o *engine.Options) { o.RingBytes = -1; o.SegmentBytes = 2000; o.NoSnapshot = true })
			storetest.Set(t, writer, "first", "1")
			reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
			looked := 0
			look = func() {
				looked++
				if err := reader.Refresh(); err != nil {
					t.Error(err)
				}
				if has, err := reader.Has(nil, []byte("several 0")); has == group || err != nil {
					t.Errorf("the reader has a record that is cut back: %v, %v", has, err)
				}
				look = func() {}
			}
			full.N = faulty.Matched(0) + 1
			if err := writeSeveral(writer, "old", group); !errors.Is(err, seglog.ErrNoSpace) {
				t.Fatalf("a write for which there is no room: %v", err)
			}
			if looked == 0 {
				t.Fatal("the reader has not looked")
			}
			for i := range 8 {
				if next >= 0 {
					storetest.Set(t, writer, fmt.Sprint("next ", i), strings.Repeat("n", next))
				} else if err := writeSeveral(writer, "new", true); err != nil {
					t.Fatal(err)
				}
				if err := reader.Refresh(); err != nil {
					t.Fatalf("group %v, %d: %v", group, next, err)
				}
				if got, want := storetest.Content(t, reader), storetest.Content(t, writer); got != want {
					t.Fatalf("group %v, %d: after write %d it holds\n%s, want\n%s", group, next, i, got, want)
				}
			}
			storetest.Close(t, reader)
			storetest.Close(t, writer)
		}
	}
}

// writeSeveral writes several records at once, which count together, or each for itself as those of a flush do.
func writeSeveral(s *engine.Store, value string, group bool) error {
	var changes []*engine.Change
	var recs []*seglog.Pending
	for n := range 9 {
		key := fmt.Append(nil, "several ", n)
		changes = append(changes, &engine.Change{Write: engine.Write{Key: key, Value: []byte(value)}})
		recs = append(recs, &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: key, Value: []byte(value)})
	}
	if group {
		return s.WriteAll(changes, engine.Process)
	}
	return s.Log().Append(recs...)
}
