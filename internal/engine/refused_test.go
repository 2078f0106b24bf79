package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A waiting value without room does not keep later deletions from the log, which make room. Close writes the
// deletions as well, though it returns the error of the values.
func TestAsyncDeletionsPassSetsThatWait(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		for _, close := range []bool{false, true} {
			disk := logtest.NewSmallDisk(vfs.NewMem(), 500)
			s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 10 << 20 })
			c := attached(t, s, "m")
			const keys = 400
			for i := range keys {
				mustSet(t, s, fmt.Sprint("m:", i), "v")
			}
			logtest.FillDisk(t, seglog.ErrNoSpace, func(key, value []byte) error { return s.Set(nil, key, value, 0, Process) })
			disk.SetFree(0)
			for i := range keys / 2 { // some in each shard
				c.setAsync(t, s, fmt.Sprint("new ", i), strings.Repeat("v", 5000))
			}
			for i := range keys {
				w := Write{Key: fmt.Append(nil, "m:", i), Cells: c, Delete: true, Durability: Async}
				if existed, err := s.Write(c.owner, &w); err != nil || !existed {
					t.Fatal(existed, err)
				}
			}
			want := strings.Repeat("v", 5000)
			if close {
				if err := s.Close(); !errors.Is(err, seglog.ErrNoSpace) {
					t.Fatalf("Close: %v", err)
				}
				disk.SetFree(1000)
				want = absent
			} else {
				if err := s.Flush(nil); !errors.Is(err, seglog.ErrNoSpace) {
					t.Fatalf("Flush: %v", err)
				}
				if n := c.table.Dirty(); n != keys/2 {
					t.Errorf("%d changes wait, want %d, none of them a deletion", n, keys/2)
				}
				disk.SetFree(1000)
				mustClose(t, s)
			}
			s = mustOpen(t, disk)
			for i := range keys {
				wantValue(t, s, fmt.Sprint("m:", i), absent)
			}
			for i := range keys / 2 {
				wantValue(t, s, fmt.Sprint("m:new ", i), want)
			}
			mustClose(t, s)
		}
	})
}
