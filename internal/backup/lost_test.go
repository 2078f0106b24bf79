package backup

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// A file of the backup that was lost or cut off meanwhile is noticed, or put right, by the next run.
func TestBackupNoticesLostFiles(t *testing.T) {
	for what, harm := range map[string]func(t *testing.T, mem *vfs.Mem, path string){
		"gone": func(t *testing.T, mem *vfs.Mem, path string) {
			if err := mem.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"cut": func(t *testing.T, mem *vfs.Mem, path string) {
			logtest.Change(t, mem, path, func(f vfs.File) error { return f.Truncate(100) })
		},
	} {
		for _, writes := range []int{0, 60} {
			mem := vfs.NewMem()
			s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 3000 })
			storetest.FillFrom(t, s, 0, 60)
			mustBackup(t, s, "b")
			names, _ := mem.List("b")
			for _, name := range names {
				if !strings.HasSuffix(name, ".log") {
					continue
				}
				harm(t, mem, filepath.Join("b", name))
				break
			}
			if writes > 0 {
				storetest.FillFrom(t, s, 100, writes)
			}
			_, err := Make(t.Context(), s, "b", Options{})
			if err != nil {
				t.Fatalf("%s, %d writes: %v", what, writes, err)
			}
			storetest.WantSound(t, mem, "b")
			if got, want := storetest.ContentIn(t, mem, "b"), storetest.Content(t, s); got != want {
				t.Errorf("%s, %d writes: the backup has %s, want %s", what, writes, got, want)
			}
			storetest.Close(t, s)
		}
	}
}
