package store

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A kill in the middle of a copy into the ring leaves any part of that copy: memmove may store the
// first bytes last. Whatever is missing then, the store opens, holds everything that was acknowledged,
// and has the unfinished group whole or not at all.
//
// A ring that was left does not say what was acknowledged last, so that what stands behind a broken place counts.
func TestKilledWithinACopy(t *testing.T) {
	for _, left := range []bool{false, true} {
		killedWithinACopy(t, left)
	}
}

func killedWithinACopy(t *testing.T, left bool) {
	mem := vfs.NewMem()
	mem.Record()
	s := mustOpen(t, mem, func(o *Options) { o.RingBytes = 64 << 10 })
	mustSet(t, s, "before", "1")
	if r := s.log.ring; left && r != nil {
		if err := r.leave(); err != nil {
			t.Fatal(err)
		}
	}
	var changes []*Change
	for n := range 20 {
		changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, "k", n), Value: []byte(strings.Repeat("v", 40*n))}})
	}
	stores := 0
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if op.Kind != vfs.OpStore || phase != vfs.After {
			return
		}
		stores++
		for _, lost := range [][2]int64{{0, min(32, op.Len)}, {0, op.Len / 2}, {op.Len / 2, op.Len}, {0, op.Len}} {
			image := mem.ProcessCrash()
			f, err := image.Open("db/"+seglog.RingName, vfs.ReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(make([]byte, lost[1]-lost[0]), op.Off+lost[0]); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Check(context.Background(), "db", image, nil); err != nil {
				t.Fatalf("store %d of %d bytes, of which [%d, %d) are missing: Check: %v", stores, op.Len, lost[0], lost[1], err)
			}
			found := mustOpen(t, image)
			wantValue(t, found, "before", "1")
			there := 0
			for _, c := range changes {
				if has, err := found.Has(nil, c.Key); err != nil {
					t.Fatal(err)
				} else if has {
					there++
				}
			}
			if there != 0 && there != len(changes) {
				t.Fatalf("store %d: %d of %d members of the group are there", stores, there, len(changes))
			}
			mustSet(t, found, "after", "2")
			mustClose(t, found)
		}
	})
	if err := s.WriteAll(changes, Process); err != nil {
		t.Fatal(err)
	}
	if s.log.ring != nil && stores == 0 {
		t.Error("the group was not stored in the ring")
	}
	mem.OnBoundary(nil)
	mustClose(t, s)
}
