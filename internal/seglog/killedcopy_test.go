package seglog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// A kill in the middle of a copy into the ring leaves any part of that copy: memmove may store the
// first bytes last. Whatever is missing then, the log opens, holds everything that was acknowledged,
// and has the unfinished group whole or not at all.
//
// A ring that was left does not have the last acknowledged record, so records after a broken place
// count.
func TestKilledWithinACopy(t *testing.T) {
	for _, left := range []bool{false, true} {
		killedWithinACopy(t, left)
	}
}

func killedWithinACopy(t *testing.T, left bool) {
	mem := vfs.NewMem()
	mem.Record()
	s := mustLog(t, mem, func(o *logSettings) { o.RingBytes = 64 << 10 })
	setIn(t, s, "before", "1")
	if r := s.Ring; left && r != nil {
		if err := r.Leave(); err != nil {
			t.Fatal(err)
		}
	}
	var lines []*Pending
	for n := range 20 {
		lines = append(lines, line(fmt.Sprint("k", n), strings.Repeat("v", 40*n)))
	}
	stores := 0
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if op.Kind != vfs.OpStore || phase != vfs.After {
			return
		}
		stores++
		for _, lost := range [][2]int64{{0, min(32, op.Len)}, {0, op.Len / 2}, {op.Len / 2, op.Len}, {0, op.Len}} {
			image := mem.ProcessCrash()
			f, err := image.Open("db/"+RingName, vfs.ReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(make([]byte, lost[1]-lost[0]), op.Off+lost[0]); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			found := mustLog(t, image)
			wantIn(t, found, "before", "1")
			there := 0
			for _, p := range lines {
				switch e, err := found.read(string(p.Key)); {
				case err == nil && string(e.Value) == string(p.Value):
					there++
				case err != errGone:
					t.Fatalf("store %d: %s is %.40q, %v", stores, p.Key, e.Value, err)
				}
			}
			if there != 0 && there != len(lines) {
				t.Fatalf("store %d of %d bytes, of which [%d, %d) are missing: %d of %d members of the group are there", stores, op.Len, lost[0], lost[1], there, len(lines))
			}
			setIn(t, found, "after", "2")
			closeLog(t, found)
		}
	})
	if err := s.setTogether(lines...); err != nil {
		t.Fatal(err)
	}
	if s.Ring != nil && stores == 0 {
		t.Error("the group was not stored in the ring")
	}
	mem.OnBoundary(nil)
	closeLog(t, s)
}
