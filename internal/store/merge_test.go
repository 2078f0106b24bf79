package store

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// What a store has written while its disk was short of room is in short segments. They become few when there is room.
func TestShortSegmentsAreMergedWhenThereIsRoom(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		disk := newSmallDisk(vfs.NewMem(), 2000)
		s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 64 << 20 })
		value := func(i int) string { return strings.Repeat(fmt.Sprint(i%10), 100_000) }
		n := 0
		for ; n < 200; n++ {
			disk.setFree(300) // as much as others leave
			s.size()
			mustSet(t, s, fmt.Sprint("key ", n), value(n))
		}
		before := len(s.log.set.Load().ordered)
		mustClose(t, s)
		disk.setFree(1 << 20)
		s, err := Open("db", Options{FS: disk})
		if err != nil {
			t.Fatal(err)
		}
		for tries := 0; s.log.compacted.Load() < mergeFrom; tries++ {
			if tries > 1_000_000 {
				t.Fatalf("of %d segments %d were merged", before, s.log.compacted.Load())
			}
			if tries < 200 { // a segment becomes full
				mustSet(t, s, fmt.Sprint("key ", n), value(n))
				n++
			}
			if err := s.FSyncAll(); err != nil { // only what is durable is compacted
				t.Fatal(err)
			}
			runtime.Gosched()
		}
		if after := len(s.log.compactable()); after >= before {
			t.Errorf("%d segments have become %d", before, after)
		}
		mustClose(t, s)
		s = mustOpen(t, disk)
		defer mustClose(t, s)
		for i := range n {
			wantValue(t, s, fmt.Sprint("key ", i), value(i))
		}
	})
}

// sealedEach ends the tail behind each of so many writes.
func sealedEach(t *testing.T, s *Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		mustSet(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 500+i%1000))
		if err := s.sealTail(); err != nil {
			t.Fatal(err)
		}
	}
}

// Merging ends, however many short segments come: what has been merged is merged again only with as much more.
func TestMergingEnds(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 1 << 20 })
	defer mustClose(t, s)
	const n = 600
	copied, merges := int64(0), 0
	for i := range n {
		sealedEach(t, s, i, i+1)
		for {
			bytes := int64(0)
			for _, seg := range s.fragments(s.log.compactable()) {
				bytes += seg.end.Load()
			}
			if merged := s.mergeOnce(noPause); merged != (bytes > 0) {
				t.Fatalf("%d bytes could be merged: %v", bytes, merged)
			}
			if bytes == 0 {
				break
			}
			if merges++; merges > n/(mergeFrom-1) {
				t.Fatalf("%d merges of %d segments", merges, i+1)
			}
			copied += bytes
		}
	}
	u := s.usage()
	if copied > 6*u.log || merges == 0 {
		t.Errorf("%d bytes were copied in %d merges, of a log of %d", copied, merges, u.log)
	}
	if list := s.log.compactable(); len(list) > 4*mergeFrom {
		t.Errorf("%d segments are left", len(list))
	}
	for i := range n {
		wantValue(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 500+i%1000))
	}
}

// What a view needs would stay beside its copies, and what little room there is is not for copies.
func TestMergingWaits(t *testing.T) {
	disk := newSmallDisk(vfs.NewMem(), 10_000)
	s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 1 << 20 })
	defer mustClose(t, s)
	sealedEach(t, s, 0, 2*mergeFrom)
	v := mustView(t, s)
	if s.mergeOnce(noPause) {
		t.Error("what a view needs was merged")
	}
	v.Close()
	free := disk.setFree(7 << 20 / diskBlock)
	if s.mergeOnce(noPause) {
		t.Error("room was taken that a segment may need")
	}
	disk.setFree(free)
	if !s.mergeOnce(noPause) {
		t.Error("nothing was merged")
	}
}

// silentDisk does not tell what is left.
type silentDisk struct{ *smallDisk }

func (silentDisk) Free(string) (int64, bool) { return 0, false }

// What cannot be merged is not tried again and again, where nobody tells that there is no room, and gives back what it took.
func TestMergingThatDoesNotFit(t *testing.T) {
	disk := newSmallDisk(vfs.NewMem(), 1000)
	s := mustOpen(t, silentDisk{disk}, func(o *Options) { o.SegmentBytes = 1 << 20 })
	defer mustClose(t, s)
	sealedEach(t, s, 0, 2*mergeFrom)
	free := disk.setFree(2)
	opened := 0
	disk.onTake = func(string) { opened++ }
	if s.mergeOnce(noPause) || opened == 0 {
		t.Fatalf("merged on a full disk; %d pieces were asked for", opened)
	}
	opened = 0
	if s.mergeOnce(noPause) || opened > 0 {
		t.Errorf("it was tried again: %d pieces", opened)
	}
	if now := disk.setFree(free); now != 2 {
		t.Errorf("of 2 blocks %d are left", now)
	}
	sealedEach(t, s, 2*mergeFrom, 3*mergeFrom)
	if !s.mergeOnce(noPause) {
		t.Error("it was never tried again")
	}
}
