package engine

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// storeWithCollections has some that were deleted, renamed and made anew.
func storeWithCollections(t *testing.T, mem *vfs.Mem) *Store {
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 1000 })
	mustChange(t, s, "a", hset("old", "1", "older", "2"))
	if _, err := s.Clear([]byte("a"), HashType, Process); err != nil {
		t.Fatal(err)
	}
	mustChange(t, s, "a", hset("x", "1", "y", "2"))
	mustChange(t, s, "before", hset("x", "9", "large", strings.Repeat("large ", seglog.PartBytes/5)))
	if err := s.Rename([]byte("before"), []byte("m:b"), HashType, Process); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "v", "value")
	return s
}

func wantCollections(t *testing.T, s *Store) {
	t.Helper()
	wantHash(t, s.Collections(), "a", "x", "1", "y", "2")
	wantHash(t, s.Collections(), "m:b", "x", "9", "large", strings.Repeat("large ", seglog.PartBytes/5))
	wantHash(t, s.Collections(), "before")
	wantValue(t, s, "v", "value")
	wantNoLeft(t, s)
}

func TestCollectionsAreCopied(t *testing.T) {
	mem := vfs.NewMem()
	s := storeWithCollections(t, mem)
	mustBackup(t, s, "copy")
	wantCollections(t, s)
	mustClose(t, s)
	for _, dir := range []string{"db", "copy"} {
		report, err := Check(context.Background(), dir, mem, nil)
		if err != nil || len(report.Problems) > 0 || report.Keys != 3 {
			t.Errorf("Check of %s: %d keys, %v, %v", dir, report.Keys, report.Problems, err)
		}
	}
	if _, err := repair.Repair(context.Background(), "db", "mended", repair.Options{FS: mem, Random: rand.Uint64}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"copy", "mended"} {
		s, err := Open(dir, testOptions(mem))
		if err != nil {
			t.Fatal(err)
		}
		wantCollections(t, s)
		mustChange(t, s, "new", hset("x", "1"))
		wantHash(t, s.Collections(), "new", "x", "1")
		mustClose(t, s)
	}
}

// TestCheckFindsNoElements: a meta without elements, as Repair can leave it, is a problem.
func TestCheckFindsNoElements(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustChange(t, s, "h", hset("a", "1", "b", "2"))
	c := Collection{Type: HashType, ID: 1 << 20}
	if _, err := s.Write(nil, &Write{Key: []byte("empty"), Kind: record.Meta, Value: c.Text(nil)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	report, err := Check(context.Background(), "db", mem.ProcessCrash(), nil)
	if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Reason, `hash under key "empty" has no elements`) {
		t.Errorf("%v, %v", report.Problems, err)
	}
}

// TestDamagedElements: what cannot be read of a collection is an error of that element, and of no other.
func TestDamagedElements(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustChange(t, s, "h", hset("a", "first value", "b", "second value", "c", "third value"))
	mustSet(t, s, "later", strings.Repeat("x", 4<<10)) // the end of the log is compared when the store is opened
	mustClose(t, s)
	image := mem.ProcessCrash()
	file, err := image.Open("db/00000001.log", vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	size, err := file.Size()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, size)
	if _, err := file.ReadAt(text, 0); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, []byte("second"))
	if _, err := file.WriteAt([]byte("S"), int64(at)); err != nil {
		t.Fatal(err)
	}
	file.Close()
	s = mustOpen(t, image)
	var got []string
	for item := range s.Collections().All([]byte("h"), HashType, Span{}, true) {
		if item.Err != nil {
			got = append(got, string(item.Key)+" damaged")
		} else {
			got = append(got, string(item.Key)+" "+string(item.Value))
		}
	}
	if strings.Join(got, ", ") != "a first value, b damaged, c third value" {
		t.Errorf("the walk yields %q", got)
	}
	mustChange(t, s, "h", hset("b", "again"))
	wantHash(t, s.Collections(), "h", "a", "first value", "b", "again", "c", "third value")
	mustClose(t, s)
}
