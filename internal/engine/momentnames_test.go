package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// severalIndexes is a store with a window of history and several snapshots of the index, which was closed.
func severalIndexes(t *testing.T, o func(*Options)) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	s := mustOpen(t, mem, o)
	for round := range 4 {
		for i := range 40 {
			mustSet(t, s, fmt.Sprint("key ", i%7), fmt.Sprint("value ", round))
		}
		snapshotNow(t, s)
	}
	mustClose(t, s)
	if named := indexesNamed(t, mem); len(named) < 4 {
		t.Fatalf("%v are named", named)
	}
	return mem
}

func indexesNamed(t *testing.T, mem *vfs.Mem) (names []string) {
	t.Helper()
	m, err := seglog.ReadManifest(mem, "db")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range m.Indexes {
		names = append(names, line.FileName())
	}
	return names
}

// wantNamed checks that the files of snapshots of the index are those that the manifest names.
func wantNamed(t *testing.T, mem *vfs.Mem, when string) {
	t.Helper()
	there, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	there = slices.DeleteFunc(there, func(name string) bool { return !logtest.IsIndex(name) })
	slices.Sort(there)
	if named := indexesNamed(t, mem); !slices.Equal(named, there) {
		t.Errorf("%s: the manifest names %v, and there are %v", when, named, there)
	}
}

// TestSwapsNameNoMissingIndex: of the files of earlier snapshots, the first swap of a process names only the existing
// ones.
func TestSwapsNameNoMissingIndex(t *testing.T) {
	windowed := func(o *Options) { o.SegmentBytes, o.Window, o.LogPerIndex = 600, 1<<40, -1 }
	without := func(o *Options) { windowed(o); o.Window = -1 }
	for name, lose := range map[string]func(t *testing.T, mem *vfs.Mem) *vfs.Mem{
		"removed": func(t *testing.T, mem *vfs.Mem) *vfs.Mem {
			logtest.RemoveIndex(mem, "db")
			return mem
		},
		"the last one removed": func(t *testing.T, mem *vfs.Mem) *vfs.Mem {
			if err := mem.Remove(filepath.Join("db", logtest.Index(mem))); err != nil {
				t.Fatal(err)
			}
			return mem
		},
		"the window was turned off by a process that was killed": func(t *testing.T, mem *vfs.Mem) *vfs.Mem {
			s := mustOpen(t, mem, without)
			mustSet(t, s, "off", "1")
			image := mem.ProcessCrash()
			mustClose(t, s)
			return image
		},
		"turned off and closed": func(t *testing.T, mem *vfs.Mem) *vfs.Mem {
			s := mustOpen(t, mem, without)
			mustSet(t, s, "off", "1")
			mustClose(t, s)
			return mem
		},
		"no snapshot": func(t *testing.T, mem *vfs.Mem) *vfs.Mem {
			s := mustOpen(t, mem, func(o *Options) { windowed(o); o.NoSnapshot = true })
			mustSet(t, s, "without", "1")
			mustClose(t, s)
			return mem
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := lose(t, severalIndexes(t, windowed))
			s := mustOpen(t, mem, windowed)
			mustSet(t, s, "again", "1")
			for i := range 40 {
				mustSet(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 30))
			}
			wantNamed(t, mem, "while it is open")
			mustClose(t, s)
			wantNamed(t, mem, "closed")
		})
	}
}

// TestIndexOfReplacedSegmentsDoesNotStay: a snapshot that names segments which compaction has replaced, from before
// there was a window of history, is of no use to a moment when their files are gone.
func TestIndexOfReplacedSegmentsDoesNotStay(t *testing.T) {
	mem := vfs.NewMem()
	small := func(o *Options) { o.SegmentBytes, o.LogPerIndex = 600, -1 }
	windowed := func(o *Options) { small(o); o.Window = 1 << 40 }
	s := mustOpen(t, mem, small)
	for i := range 60 {
		mustSet(t, s, fmt.Sprint("key ", i%50), "value")
	}
	if err := s.log.SyncEnded(); err != nil {
		t.Fatal(err)
	}
	snapshotNow(t, s)
	if err := s.compact(s.log.Compactable()[:3], noPause); err != nil {
		t.Fatal(err)
	}
	mem = mem.ProcessCrash() // without another snapshot
	mustClose(t, s)
	s = mustOpen(t, mem, windowed)
	defer mustClose(t, s)
	if s.snapshot == nil || len(s.log.Manifest.Indexes) != 1 {
		t.Fatal("it was not opened from the snapshot")
	}
	mustSet(t, s, "key 0", "of the window")
	at := seglog.AtSeq(s.log.Last())
	mustSet(t, s, "key 0", "later")
	snapshotNow(t, s)
	m, err := s.OpenMoment(at)
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, m, "key 0", "of the window")
	if err := s.CloseMoment(m); err != nil {
		t.Fatal(err)
	}
	if lines := s.log.Manifest.Indexes; len(lines) != 1 {
		t.Errorf("%d snapshots are named, of which one is of use", len(lines))
	}
}
