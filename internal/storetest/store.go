package storetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/vfs"
)

// Long reports whether tests may run long.
func Long() bool { return os.Getenv("COPAL_LONG") == "1" }

// Options returns the options of a store without goroutines.
func Options(fsys vfs.FS, change ...func(*engine.Options)) engine.Options {
	opts := engine.Options{FS: fsys, Inline: true, RingBytes: logtest.TestRing, MaxMemory: logtest.Memory}
	for _, f := range change {
		f(&opts)
	}
	return opts
}

// Open opens a store without goroutines on fsys, in the directory db.
func Open(t testing.TB, fsys vfs.FS, change ...func(*engine.Options)) *engine.Store {
	t.Helper()
	s, err := TryOpen(fsys, change...)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

// TryOpen does the same as Open, and returns the error.
func TryOpen(fsys vfs.FS, change ...func(*engine.Options)) (*engine.Store, error) {
	return store.Open("db", Options(fsys, change...))
}

// Close closes a store, which has nothing to complain of.
func Close(t testing.TB, s *engine.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// Set sets a raw key.
func Set(t testing.TB, s *engine.Store, key, value string) {
	t.Helper()
	if err := s.Set(nil, []byte(key), []byte(value), 0, engine.Process); err != nil {
		t.Fatalf("Set(%q): %v", key, err)
	}
}

// Delete deletes a raw key.
func Delete(t testing.TB, s *engine.Store, key string) {
	t.Helper()
	if _, err := s.Delete(nil, []byte(key), engine.Process); err != nil {
		t.Fatalf("Delete(%q): %v", key, err)
	}
}

// Absent is the expected value of a key without an entry.
const Absent = "\x00absent"

// Want checks the value under key.
func Want(t testing.TB, s *engine.Store, key, want string) {
	t.Helper()
	e, err := s.Get(nil, []byte(key))
	switch {
	case want == Absent && !errors.Is(err, engine.ErrNotFound):
		t.Fatalf("Get(%q) = %q, %v, want ErrNotFound", key, e.Value, err)
	case want != Absent && (err != nil || string(e.Value) != want):
		t.Fatalf("Get(%q) = %.100q, %v, want %.100q", key, e.Value, err, want)
	}
}

// WantSame checks that the store has these entries and no others, however they are read.
func WantSame(t testing.TB, s *engine.Store, content map[string]string) {
	t.Helper()
	seen := 0
	for _, table := range s.Tables() {
		for item := range s.Items(table) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			if want, ok := content[string(item.Key)]; !ok || want != string(item.Value) {
				t.Fatalf("key %q has %.60q, want %.60q, %v", item.Key, item.Value, want, ok)
			}
			seen++
		}
	}
	if seen != len(content) || s.Stats().Keys != int64(len(content)) {
		t.Fatalf("%d entries, %d counted, want %d", seen, s.Stats().Keys, len(content))
	}
	for key, want := range content {
		Want(t, s, key, want)
	}
}

// Entries returns the entries of a store: a schema and a value by key.
func Entries(t testing.TB, s *engine.Store) map[string]string {
	t.Helper()
	entries := map[string]string{}
	for _, table := range s.Tables() {
		for item := range s.Items(table) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			entries[string(item.Key)] = fmt.Sprintf("%d %s", item.Schema, item.Value)
		}
	}
	return entries
}

// Content lists the entries of a store in a text, for comparison.
func Content(t testing.TB, s *engine.Store) string {
	t.Helper()
	var b strings.Builder
	entries := Entries(t, s)
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(&b, "%q=%d:%.40q\n", key, len(entries[key]), entries[key])
	}
	return b.String()
}

// ContentIn returns the Content of the store in dir, which is opened to read, or "" if there is
// none.
func ContentIn(t testing.TB, fsys vfs.FS, dir string) string {
	t.Helper()
	s, err := store.Open(dir, Options(fsys, func(o *engine.Options) { o.ReadOnly = true }))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, seglog.ErrUnfinished) || errors.Is(err, seglog.ErrCorrupt) && logtest.ContentOfFile(t, fsys, filepath.Join(dir, seglog.ManifestName)) == "\x00missing" {
		return ""
	}
	if err != nil {
		t.Fatalf("opening %s: %v", dir, err)
	}
	defer s.Close()
	return Content(t, s)
}

// WantSound checks a store that is not open.
func WantSound(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	found, err := engine.Check(context.Background(), dir, fsys, nil)
	if err != nil || len(found.Problems) > 0 {
		t.Fatalf("Check of %s: %v %v", dir, err, found.Problems)
	}
}

// FillFrom writes n keys and deletes some, so that segments of a small size come and go.
func FillFrom(t testing.TB, s *engine.Store, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		Set(t, s, fmt.Sprintf("key %d", i%40), strings.Repeat(fmt.Sprint(i, " "), 1+i%9))
		if i%7 == 0 {
			Delete(t, s, fmt.Sprintf("key %d", (i+3)%40))
		}
	}
}

// HSet returns changes that set elements of a hash, given as names and values.
func HSet(words ...string) (edits []*engine.Edit) {
	for i := 0; i < len(words); i += 2 {
		edits = append(edits, &engine.Edit{Sub: []byte(words[i]), Value: []byte(words[i+1])})
	}
	return edits
}

// HDel returns changes that delete elements of a hash.
func HDel(subs ...string) (edits []*engine.Edit) {
	for _, sub := range subs {
		edits = append(edits, &engine.Edit{Sub: []byte(sub), Delete: true})
	}
	return edits
}

// Change changes elements of a hash.
func Change(t testing.TB, s *engine.Store, key string, edits []*engine.Edit) {
	t.Helper()
	err := s.Change([]byte(key), engine.HashType, engine.Process, func(*engine.Plan) ([]*engine.Edit, error) { return edits, nil })
	if err != nil {
		t.Fatalf("Change(%q): %v", key, err)
	}
}

// Compact gives back all the space that can be given back.
func Compact(s *engine.Store) error {
	return compaction.Of(s).Compact(context.Background(), nil)
}

// CompactSome compacts a run that is chosen at random, if there is one.
func CompactSome(t testing.TB, s *engine.Store, rng *rand.Rand) {
	t.Helper()
	if err := CompactRun(s, rng.IntN(1000)); err != nil {
		t.Fatalf("compacting: %v", err)
	}
}

// CompactRun compacts a run that n chooses, if there is one. The records that made its records dead
// may not be durable yet. With some n it is interrupted after some segments.
func CompactRun(s *engine.Store, n int) error {
	if s.Log().Wrote() && n%3 > 0 {
		if err := s.Log().SyncEnded(); err != nil {
			return err
		}
	}
	pauses := n / 28 % 8
	pause := func() error {
		if pauses++; pauses == 8 {
			return seglog.ErrClosed
		}
		return nil
	}
	_, err := compaction.Of(s).Run(func(list []*seglog.Segment) ([]*seglog.Segment, error) {
		if len(list) == 0 {
			return nil, nil
		}
		i := n % len(list)
		return list[i : i+1+n/7%min(len(list)-i, 4)], nil
	}, pause)
	return err
}

// CompactRange compacts some of the segments that can be, together.
func CompactRange(t testing.TB, s *engine.Store, from, to int) {
	t.Helper()
	run := s.Log().Compactable()[from:to]
	_, err := compaction.Of(s).Run(func([]*seglog.Segment) ([]*seglog.Segment, error) { return run, nil }, nil)
	if err != nil || s.Log().InLog(run[0]) {
		t.Fatalf("segments %d to %d are left alone: %v", from, to, err)
	}
}

// FillSegment writes eight entries, less than a segment of 1,000 bytes, into content, too, and ends
// the segment after them.
func FillSegment(t testing.TB, s *engine.Store, segment, edition int, content map[string]string) {
	t.Helper()
	for n := range 8 {
		key, value := fmt.Sprintf("%d/%d", segment, n), fmt.Sprint(edition, strings.Repeat("v", 60))
		Set(t, s, key, value)
		content[key] = value
	}
	SealTail(t, s)
}

// SealTail ends the tail, if it has records, so that it can be compacted.
func SealTail(t testing.TB, s *engine.Store) {
	t.Helper()
	err := s.Inside(s.Log().EndTail)
	if err == nil {
		err = s.Log().SyncEnded()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// DropRetired removes the segments that were pinned.
func DropRetired(s *engine.Store) {
	s.Housekeep(func() error { s.DropRetired(); return nil })
}

// Unlocked is a disk without locks: the next process opens the store of one that is taken for dead.
type Unlocked struct{ vfs.FS }

// Lock gives the lock back at once.
func (u Unlocked) Lock(name string) (vfs.Lock, error) {
	lock, err := u.FS.Lock(name)
	if err == nil {
		err = lock.Close()
	}
	return unlocked{u.FS, filepath.Dir(name)}, err
}

// unlocked opens the directory at each sync, as no process keeps it open.
type unlocked struct {
	fs  vfs.FS
	dir string
}

func (u unlocked) SyncDir() error { return u.fs.SyncDir(u.dir) }

func (u unlocked) Close() error { return nil }
