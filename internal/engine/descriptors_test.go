package engine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/backup"
	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// fewFiles is how many files may be open at once, however many segments there are: a process that may have 64 has some
// of them in use already.
const fewFiles = 40

// TestFewDescriptors: a store of 1,000 segments is opened, read, followed, checked, repaired, copied and compacted
// with few open files.
func TestFewDescriptors(t *testing.T) { logtest.BothWays(t, fewDescriptors) }

func fewDescriptors(t *testing.T) {
	const segments = 300
	mem := vfs.NewMem()
	files := logtest.NewOpenFiles(mem)
	options := func(o *engine.Options) { o.SegmentBytes = 500 }
	content := map[string]string{}
	mapped := os.Getenv("COPAL_NO_MMAP") != "1" // else a reader keeps files that the writer may remove
	most := func(what string, stores int) {
		t.Helper()
		if n := files.Most(); n > stores*fewFiles {
			t.Errorf("%s: %d files are open at once", what, n)
		}
	}
	grown := func(o *engine.Options) { o.NoCompaction = true }
	s := storetest.Open(t, files, options, grown)
	for i := range 2 * segments {
		key := fmt.Sprint("key ", i%(segments*3/2))
		content[key] = fmt.Sprint(i, strings.Repeat("x", 200))
		storetest.Set(t, s, key, content[key])
		if i%10 == 0 {
			if err := s.Sync(); err != nil { // which a keeper does
				t.Fatal(err)
			}
		}
	}
	if n := len(s.Log().Segments()); n < segments/2 {
		t.Fatalf("%d segments", n)
	}
	most("writing", 1)
	storetest.Close(t, s)
	files.Most()

	s = storetest.Open(t, files, options, grown)
	most("opening", 1)
	storetest.WantSame(t, s, content)
	most("reading", 1)
	if _, err := backup.Make(context.Background(), s, "copy", backup.Options{}); err != nil {
		t.Fatal(err)
	}
	most("a backup", 1)
	if mapped {
		reader := storetest.Open(t, files, func(o *engine.Options) { o.ReadOnly = true })
		storetest.WantSame(t, reader, content)
		storetest.Close(t, reader)
		most("a reader", 2)
	}
	storetest.Close(t, s)

	logtest.RemoveIndex(mem, "db")
	s = storetest.Open(t, files, options)
	most("opening without a snapshot of the index", 1)
	if mapped {
		reader := storetest.Open(t, files, func(o *engine.Options) { o.ReadOnly = true })
		for i := range 20 {
			storetest.Set(t, s, "new", fmt.Sprint(i))
		}
		content["new"] = "19"
		if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		storetest.WantSame(t, reader, withoutKey(content, "new")) // the files are gone, and their mappings are not
		if err := reader.Follower().Look(); err != nil {
			t.Fatal(err)
		}
		storetest.WantSame(t, reader, content)
		storetest.Close(t, reader)
	} else if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	most("compacting", 2)
	storetest.WantSame(t, s, content)
	storetest.Close(t, s)

	report, err := engine.Check(context.Background(), "copy", files, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check: %v, %v", report, err)
	}
	if mapped {
		most("a check", 1)
	}
	files.Most()
	if _, err := repair.Repair(context.Background(), "copy", "mended", repair.Options{FS: files}); err != nil {
		t.Error(err)
	}
	most("a repair", 1)
	if left := files.Names(); len(left) > 0 {
		t.Errorf("open at the end: %v", left)
	}
}

// withoutKey returns a copy of a map without a key.
func withoutKey(content map[string]string, key string) map[string]string {
	c := map[string]string{}
	for k, v := range content {
		if k != key {
			c[k] = v
		}
	}
	return c
}
