package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Each segment counts what is dead in it, exactly but for parts of large values.
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
				mustSet(t, s, key, strings.Repeat("large", partBytes/3))
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
				live[s.log.segment(slot).id] += int64(e.Bytes)
				if e.Large == 0 {
					continue
				}
				for _, word := range strings.Split(string(e.Value), " ")[1:] {
					p, err := s.readPart(word, nil)
					if err != nil {
						t.Fatal(err)
					}
					id, _, _ := parsePlace(word)
					live[id] += int64(p.Bytes)
				}
			}
		}
		for _, seg := range s.log.readable() {
			counted := seg.end.Load() - seg.head - seg.dead.Load()
			declared := int64(0)
			if counted-live[seg.id] > 0 && counted-live[seg.id] < 60 {
				declared = counted - live[seg.id] // the record of the map
			}
			if off := counted - declared - live[seg.id]; off != 0 && (off*off > 400 || seg.end.Load() < 100_000) {
				t.Errorf("segment %v of %d bytes: %d count as live, %d are", seg.id, seg.end.Load(), counted, live[seg.id])
			}
		}
	}
	check()
	mustClose(t, s)
	s = open()
	check()
	mustClose(t, s)
}
