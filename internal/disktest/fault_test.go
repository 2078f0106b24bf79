//go:build linux

package disktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
)

// TestDeviceFails: the device has no room that the file system has promised, so that writing back
// fails some time after the write, which the kernel reports once and then forgets. From then on the
// store takes no writes, and serves reads. A later opening shows the content of the device: it is
// the same after the cache is gone.
func TestDeviceFails(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for name, options := range map[string][]string{"journal": nil, "no journal": {"-O", "^has_journal"}} {
			t.Run(name, func(t *testing.T) { deviceFails(t, options) })
		}
	})
}

func deviceFails(t *testing.T, options []string) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprint("reader beside ", beside), func(t *testing.T) { deviceFailsBeside(t, options, beside) })
	}
}

// A reader that has the segments mapped keeps the kernel from dropping pages that the disk never
// got.
func deviceFailsBeside(t *testing.T, options []string, beside bool) {
	room := mountTmpfs(t, 24)
	i := newImage(t, filepath.Join(room, "image"), 96, options...)
	dir := filepath.Join(i.dir, "db")
	var reported []error
	s, err := store.Open(dir, engine.Options{OnError: func(err error) { reported = append(reported, err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	n, durable := 0, 0
	const size = 2000
	write := func(count int) error {
		for end := n + count; n < end; n++ {
			if err := s.Set(nil, fmt.Append(nil, n), valueOf(n, size), 0, engine.Process); err != nil {
				return err
			}
		}
		if err := s.Sync(); err != nil {
			return err
		}
		durable = n
		return nil
	}
	if err := write(300); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(room, "ballast")
	takeAll(t, ballast)
	for err == nil && n < 50_000 {
		err = write(500)
	}
	if !errors.Is(err, seglog.ErrReadOnly) || errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("write %d and sync with a device that fails: %v", n, err)
	}
	showsFrom(t, s, durable, n, size)
	var unmounting []func() error
	if beside {
		reader, err := store.Open(dir, engine.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		unmounting = append(unmounting, reader.Close)
		showsFrom(t, reader, durable, int(reader.Stats().Keys), size)
	}
	for range 2 {
		if err := s.Set(nil, []byte("x"), nil, 0, engine.Process); !errors.Is(err, seglog.ErrReadOnly) {
			t.Error("Set after a failed sync: ", err)
		}
		if err := s.Set(nil, []byte("x"), nil, 0, engine.Power); !errors.Is(err, seglog.ErrReadOnly) {
			t.Error("Set that is to be durable after a failed sync: ", err)
		}
		if err := s.Sync(); !errors.Is(err, seglog.ErrReadOnly) {
			t.Error("Sync after a failed sync: ", err)
		}
	}
	if err := s.Close(); !errors.Is(err, seglog.ErrReadOnly) {
		t.Error("Close after a failed sync: ", err)
	}
	if len(reported) == 0 {
		t.Error("nothing was reported")
	}

	// On the device that still fails, which the kernel reports only once, and on the one that works
	// again.
	settled := []int{settledOf(t, dir, durable, n, size), settledOf(t, dir, durable, n, size)}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	settled = append(settled, settledOf(t, dir, durable, n, size), settledOf(t, dir, durable, n, size))
	for _, f := range unmounting {
		f()
	}
	i.again(t)
	there := entriesOf(t, dir, durable, n, size, func(s *engine.Store, count int) { // the cache has the content of the disk
		holds(t, s, count, func(int) int { return size })
	})
	if there < 0 && len(options) > 0 {
		return // such a file system is in pieces now, and says so
	}
	if there < 0 {
		t.Fatal("the store does not open on the device that works again")
	}
	t.Logf("%d written, %d of them durable; the openings before the cache was gone were told that %d are, the one after it shows %d (%v)", n, durable, settled, there, err)
	if there < durable {
		t.Errorf("%d were acknowledged as durable, %d are there", durable, there)
	}
	if most := slices.Max(settled); there < most {
		t.Errorf("%d were said to be durable, %d are there", most, there)
	}
	if settled[3] < 0 {
		t.Error("on a device that works again nothing can be made durable")
	}
}

// showsFrom demands the values of the first n keys. Of those that are not durable the kernel may
// have lost some: when a write-back fails it drops pages now and then, soon or later, and the file
// reads as zeros there. Such a value is an error, never another value, and never missing.
func showsFrom(t *testing.T, s *engine.Store, durable, n, size int) {
	t.Helper()
	holds(t, s, min(durable, n), func(int) int { return size })
	for key := durable; key < n; key++ {
		e, err := s.Get(nil, fmt.Append(nil, key))
		if err == nil && string(e.Value) != string(valueOf(key, size)) || err != nil && !errors.Is(err, seglog.ErrCorrupt) {
			t.Fatalf("key %d of %d, which is not durable: %d bytes, %v", key, n, len(e.Value), err)
		}
	}
}

// settledOf opens the store, and returns how many of its keys are said to be durable, negative for
// none. Those are there.
func settledOf(t *testing.T, dir string, durable, n, size int) int {
	t.Helper()
	var err error
	count := entriesOf(t, dir, durable, n, size, func(s *engine.Store, count int) {
		if err = s.Sync(); err == nil {
			holds(t, s, count, func(int) int { return size })
		}
	})
	if err != nil {
		t.Log("syncing: ", err)
		return -1
	}
	return count
}

// entriesOf opens the store, and returns how many of its keys from 0 on are there; the rest is not.
// It is negative when the store does not open. At last it calls then.
func entriesOf(t *testing.T, dir string, durable, n, size int, then func(s *engine.Store, count int)) int {
	t.Helper()
	s, err := store.Open(dir, engine.Options{})
	if err != nil {
		t.Log("opening: ", err)
		return -1
	}
	defer s.Close()
	count := int(s.Stats().Keys)
	showsFrom(t, s, durable, count, size)
	for key := count; key < n; key++ {
		if e, err := s.Get(nil, fmt.Append(nil, key)); !errors.Is(err, engine.ErrNotFound) {
			t.Fatalf("key %d of %d: %d bytes, %v", key, count, len(e.Value), err)
		}
	}
	then(s, count)
	return count
}
