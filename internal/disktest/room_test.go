//go:build linux

package disktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"golang.org/x/sys/unix"
)

// A store with small segments, of which a log has many.

const smallSegment = 256 << 10

func openSmall(t *testing.T, dir string) *engine.Store {
	t.Helper()
	s, err := store.Open(dir, engine.Options{SegmentBytes: smallSegment})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func closeSmall(t *testing.T, s *engine.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal("Close: ", err)
	}
}

// holds compares everything under the keys 0 to n-1; size is the value's, negative for none.
func holds(t *testing.T, s *engine.Store, n int, size func(key int) int) {
	t.Helper()
	for key := range n {
		e, err := s.Get(nil, fmt.Append(nil, key))
		if size(key) < 0 && errors.Is(err, engine.ErrNotFound) {
			continue
		}
		if err != nil || size(key) < 0 || string(e.Value) != string(valueOf(key, size(key))) {
			t.Fatalf("key %d: %d bytes, %v; want %d", key, len(e.Value), err, size(key))
		}
	}
}

// TestFullDiskBetweenSegments: a log that finds no room for its next segment stays in the present
// one, refuses writes that do not fit there either, and goes on when there is room.
func TestFullDiskBetweenSegments(t *testing.T) {
	bothDisks(t, 12, func(t *testing.T, disk string) {
		ballast := filepath.Join(disk, "ballast")
		take(t, ballast, 2<<20)
		dir := filepath.Join(disk, "db")
		s := openSmall(t, dir)
		sizes := map[int]int{}
		n := 0
		write := func(size int) bool {
			d := engine.Process
			if n%50 == 0 {
				d = engine.Power
			}
			err := s.Set(nil, fmt.Append(nil, n), valueOf(n, size), 0, d)
			if err == nil {
				sizes[n] = size
				n++
			} else if !errors.Is(err, seglog.ErrNoSpace) || errors.Is(err, seglog.ErrReadOnly) {
				t.Fatalf("write %d: %v", n, err)
			}
			return err == nil
		}
		fill := func() {
			for i := 0; write(i % 5000); i++ {
			}
			for _, size := range []int{1000, 0} {
				for write(size) {
				}
			}
		}
		compare := func() {
			holds(t, s, n, func(key int) int {
				if size, ok := sizes[key]; ok {
					return size
				}
				return -1
			})
		}
		fill()
		if count := s.Stats().Segments; count < 3 {
			t.Errorf("%d segments", count)
		}
		compare()
		for key := range 300 {
			if existed, err := s.Delete(nil, fmt.Append(nil, key), engine.Process); !existed || err != nil {
				t.Fatalf("Delete %d: %t, %v", key, existed, err)
			}
			delete(sizes, key)
		}
		compare()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if before := n; !write(1000) || n == before {
			t.Error("no room again, after 2 MiB were given back")
		}
		compare()
		closeSmall(t, s)
		s = openSmall(t, dir)
		for before := s.Stats().Segments; s.Stats().Segments == before; {
			if !write(1000) {
				t.Fatal("the disk is full again, and no segment was begun")
			}
		}
		compare()
		closeSmall(t, s)
		s = openSmall(t, dir)
		compare()
		closeSmall(t, s)
	})
}

// TestReservedSpaceIsGivenBack: the room reserved beyond the end of a segment goes back to the disk
// when the segment ends, when the store is closed, but for the part of deletions, and when a store
// that died is written to again.
func TestReservedSpaceIsGivenBack(t *testing.T) {
	bothDisks(t, 32, func(t *testing.T, disk string) {
		dir := filepath.Join(disk, "db")
		s := openSmall(t, dir)
		n := 0
		write := func(bytes int) {
			t.Helper()
			for end := n + bytes/1000; n < end; n++ {
				if err := s.Set(nil, fmt.Append(nil, n), valueOf(n, 950), 0, engine.Process); err != nil {
					t.Fatal(err)
				}
			}
		}
		for s.Stats().Segments < 5 {
			write(smallSegment / 4)
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Sync(); err != nil { // which waits for the next segment to become the tail, if that is just happening
			t.Fatal(err)
		}
		const kept = 64 << 10
		tail, most := 0, int64(0)
		for i, beyond := range reserved(t, dir) { // one of the last two is the tail, the other, if there is one, the spare
			if beyond > most {
				tail, most = i, beyond
			}
		}
		for i, beyond := range reserved(t, dir) {
			if i < tail && beyond > 0 {
				t.Errorf("segment %d has ended, and has %d bytes beyond its end", i+1, beyond)
			}
		}
		if most < kept {
			t.Errorf("the tail has %d bytes beyond its end: this tests nothing", most)
		}
		closeSmall(t, s)
		ofClosed := reserved(t, dir)
		for i, beyond := range ofClosed {
			if beyond > kept {
				t.Errorf("closed: segment %d has %d bytes beyond its end", i+1, beyond)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "RING")); !errors.Is(err, os.ErrNotExist) {
			t.Error("closed: there is a ring: ", err)
		}

		c := start(t, order{Do: "die", Dir: dir})
		c.hear()
		c.cmd.Wait() // it has killed itself
		left := reserved(t, dir)
		s = openSmall(t, dir)
		write(1000)
		for i, beyond := range reserved(t, dir)[:len(left)] {
			if beyond > 0 && i >= len(ofClosed)-1 {
				t.Errorf("segment %d of the dead process has %d bytes beyond its end, had %d", i+1, beyond, left[i])
			}
		}
		closeSmall(t, s)
	})
}

// dieTask writes a little and dies.
func dieTask(o order) error {
	s, err := store.Open(o.Dir, engine.Options{SegmentBytes: smallSegment})
	if err != nil {
		return err
	}
	if err := s.Set(nil, []byte("x"), valueOf(0, 5000), 0, engine.Process); err != nil {
		return err
	}
	say("dies")
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// reserved is for each segment how many bytes of the disk it has beyond its last block.
func reserved(t *testing.T, dir string) (list []int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(names) == 0 {
		t.Fatal("no segments: ", err)
	}
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		const block = 4096 // as much as is ever reserved, at least
		beyond := st.Blocks*512 - (st.Size+block-1)/block*block
		if beyond < block { // the file system's blocks that map the file are counted, too
			beyond = 0
		}
		list = append(list, beyond)
	}
	return list
}
