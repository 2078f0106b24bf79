package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// TestRepairAfterACrashInCompaction: a crash in the middle of a compaction may leave a new segment without a
// record. When the manifest is lost, too, Repair does not take it for the replacement of the old ones. (With
// one that has records it does, and reports the rest: see docs/design/backup-repair-follow.md.)
func TestRepairAfterACrashInCompaction(t *testing.T) {
	mem := vfs.NewMem()
	mem.Record()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 3000 })
	defer mustClose(t, s)
	fillFrom(t, s, 0, 120)
	want := render(contentsOf(t, s))
	if err := s.log.SyncEnded(); err != nil {
		t.Fatal(err)
	}
	var images []*vfs.Mem
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) { images = append(images, mem.ProcessCrash()) })
	err := s.compact(s.log.Compactable(), noPause)
	mem.OnBoundary(nil)
	if err != nil && !errors.Is(err, errLeft) {
		t.Fatal(err)
	}
	tested := 0
	for n, image := range images {
		without, made := 0, 0
		for name, text := range contentOfDir(t, image, "db") {
			if id, ok := record.ParseFileName(name); ok && id.Generation() > 0 {
				made++
				if strings.HasSuffix(text, "\n") && strings.Count(text, "\n") == 1 {
					without++
				}
			}
		}
		if err := image.Remove("db/MANIFEST"); err != nil {
			t.Fatal(err)
		}
		if without > 0 && without == made {
			tested++
		}
		report, err := repairImage(image)
		if err != nil {
			t.Fatalf("image %d: %v", n, err)
		}
		if got := contentIn(t, image, "mended"); got != want && (without > 0 && without == made || len(report.Passed) == 0) {
			t.Errorf("image %d of %d: it holds %d bytes of content, want %d; lost: %+v", n, len(images), len(got), len(want), report.Lost)
		}
	}
	if tested == 0 {
		t.Error("no image has a new segment without a record: this has tested nothing")
	}
}

// fillFrom writes n keys and deletes some, so that segments of a small size come and go.
func fillFrom(t testing.TB, s *Store, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		mustSet(t, s, fmt.Sprintf("key %d", i%40), strings.Repeat(fmt.Sprint(i, " "), 1+i%9))
		if i%7 == 0 {
			if _, err := s.Delete(nil, fmt.Appendf(nil, "key %d", (i+3)%40), Process); err != nil {
				t.Fatal(err)
			}
		}
	}
}
