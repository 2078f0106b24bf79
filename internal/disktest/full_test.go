//go:build linux

package disktest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/copaldb/copal"
	"golang.org/x/sys/unix"
)

// TestFullDisk: only writes without room are refused; reads, deletions and syncs go on, and so do
// writes when there is room again.
func TestFullDisk(t *testing.T) {
	bothDisks(t, 28, func(t *testing.T, disk string) {
		ballast := filepath.Join(disk, "ballast")
		take(t, ballast, 6<<20)
		b := newBook(t, filepath.Join(disk, "db"))
		b.fill()
		if bytes := b.db.Stats().LogBytes; bytes < 14<<20 {
			t.Errorf("the disk is full with %d bytes of log", bytes)
		}
		b.compare()
		b.sync()
		b.async() // before there is garbage, which would make room for some of it
		b.compare()
		b.remove(300)
		b.compare()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if !b.set(100) || !b.set(10<<10) {
			t.Fatal("no room again, after 6 MiB were given back")
		}
		if err := b.m.Sync(); err != nil {
			t.Fatal("Sync with room again: ", err)
		}
		b.compare()
		b.close()
		b.open()
		b.compare()
		b.fill()
		b.close()
		b.open()
		b.compare()
		b.remove(200)
		b.close()
	})
}

func (b *book) sync() {
	b.t.Helper()
	if err := b.db.Sync(); err != nil {
		b.t.Fatal("Sync on a full disk: ", err)
	}
}

// async writes asynchronously on a full disk: memory takes writes up to its limit, then they are
// refused, and those that were taken are there.
func (b *book) async() {
	b.t.Helper()
	const size = 1 << 10
	for n := 0; ; n++ {
		key := b.next
		b.next++
		err := b.m.SetAsync(key, valueOf(key, size))
		if err == nil {
			b.want[key] = size
			if n*size > 4*bookMemory {
				b.t.Fatalf("%d bytes were taken that the disk has no room for, with %d of memory", n*size, bookMemory)
			}
			continue
		}
		if !full(err) {
			b.t.Fatal("SetAsync on a full disk: ", err)
		}
		break
	}
	if used := b.db.Stats().CacheBytes; used > 2*bookMemory {
		b.t.Errorf("%d bytes of cells with %d of memory", used, bookMemory)
	}
	if err := b.m.Sync(); !full(err) {
		b.t.Error("Sync of what there is no room for: ", err)
	}
	if err := b.db.Sync(); !full(err) {
		b.t.Error("Sync of what there is no room for: ", err)
	}
	b.remove(2) // a few: each makes no room on the disk
}

// TestOpenOnFullDisk: a store opens on a disk without a free block, after a close and after a kill
// -9; it can be read, and entries that are deleted there stay deleted.
func TestOpenOnFullDisk(t *testing.T) {
	bothDisks(t, 24, func(t *testing.T, disk string) {
		b := &book{t: t, dir: filepath.Join(disk, "db"), next: 1 << 20}
		c := start(t, order{Do: "fill", Dir: b.dir})
		if err := json.Unmarshal([]byte(c.hear()), &b.want); err != nil {
			t.Fatal(err)
		}
		c.cmd.Wait() // it has killed itself
		for range 3 {
			ballast := filepath.Join(disk, "ballast")
			takeAll(t, ballast)
			b.open()
			b.compare()
			b.fill() // with the room of the dead process's ring, if any
			b.remove(100)
			b.sync()
			b.compare()
			b.close()
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		}
		b.open()
		b.compare()
		b.close()
	})
}

// TestNewStoreOnFullDisk: a store that there is no room to begin is refused as a write is, and
// begun later.
func TestNewStoreOnFullDisk(t *testing.T) {
	bothDisks(t, 8, func(t *testing.T, disk string) {
		ballast, dir := filepath.Join(disk, "ballast"), filepath.Join(disk, "db")
		takeAll(t, ballast)
		db, err := copal.Open(dir)
		if err == nil {
			err = errors.Join(db.Raw().Set([]byte("key"), []byte("value")), db.Close())
		}
		if !full(err) {
			t.Fatal("beginning a store on a full disk: ", err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		b := newBook(t, dir)
		b.fill()
		b.close()
		b.open()
		b.compare()
		b.close()
	})
}

// fillTask fills the disk with a book, prints its content, and dies.
func fillTask(o order) error {
	b := newBook(complaints{}, o.Dir)
	b.fill()
	say(b.want)
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}
