package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Each segment counts its dead bytes, exactly except for parts of large values.
func TestDeadBytes(t *testing.T) {
	mem := vfs.NewMem()
	rng := rand.New(rand.NewPCG(1, 8))
	open := func() *Store { return mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 4000 }) }
	s := open()
	for i := range 2000 {
		key := fmt.Sprint("users:", rng.IntN(100))
		switch rng.IntN(10) {
		case 0:
			if _, err := s.Delete(nil, []byte(key), Process); err != nil {
				t.Fatal(err)
			}
		case 1:
			if i%5 == 0 {
				mustSet(t, s, key, strings.Repeat("large", seglog.PartBytes/3))
			}
		default:
			mustSet(t, s, key, strings.Repeat("v", rng.IntN(80)))
		}
		if i == 1000 {
			if _, err := s.Map("users"); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func() {
		t.Helper()
		live := map[record.SegmentID]int64{}
		for _, table := range s.Tables() {
			for a, err := range table.addresses() {
				if err != nil {
					t.Fatal(err)
				}
				e, err := s.readAt(a, nil)
				if err != nil {
					t.Fatal(err)
				}
				slot, _ := seglog.SplitAddress(a)
				live[s.log.Segment(slot).ID] += int64(e.Bytes)
				if e.Large == 0 {
					continue
				}
				for _, word := range strings.Split(string(e.Value), " ")[1:] {
					p, err := seglog.ReadPart(s.log, word, nil)
					if err != nil {
						t.Fatal(err)
					}
					id, _, _ := seglog.ParsePlace(word)
					live[id] += int64(p.Bytes)
				}
			}
		}
		for _, seg := range s.log.Readable() {
			counted := seg.End.Load() - seg.Head - seg.Dead.Load()
			declared := int64(0)
			if counted-live[seg.ID] > 0 && counted-live[seg.ID] < 60 {
				declared = counted - live[seg.ID] // the record of the map
			}
			if off := counted - declared - live[seg.ID]; off != 0 && (off*off > 400 || seg.End.Load() < 100_000) {
				t.Errorf("segment %v of %d bytes: %d count as live, %d are", seg.ID, seg.End.Load(), counted, live[seg.ID])
			}
		}
	}
	check()
	mustClose(t, s)
	s = open()
	check()
	mustClose(t, s)
}
