package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestRepairOfACompactedStore: a compacted log is repaired in its new form, also if the replaced files still
// exist, and an index snapshot that names them; a power cut or damage before makes no difference.
func TestRepairOfACompactedStore(t *testing.T) {
	seeds := uint64(3)
	for seed := uint64(1); seed <= seeds; seed++ {
		f := storetest.NewFollowed(t, seed)
		replaced := map[string]string{} // files, by name
		for n := range 300 {
			for name, text := range logtest.ContentOfDir(t, f.Mem, "db") {
				if strings.HasSuffix(name, ".log") && len(replaced[name]) < len(text) {
					replaced[name] = text
				}
			}
			f.Step(n)
		}
		storetest.Close(t, f.Writer)
		if err := f.Reader.Refresh(); err != nil {
			t.Fatal(err)
		}
		want := storetest.Content(t, f.Reader)
		for _, manifest := range []bool{true, false} {
			for _, old := range []bool{true, false} {
				image := f.Mem.ProcessCrash()
				m, err := seglog.ReadManifest(image, "db")
				if err != nil {
					t.Fatal(err)
				}
				if !manifest {
					if err := image.Remove("db/MANIFEST"); err != nil {
						t.Fatal(err)
					}
				}
				for name, text := range replaced {
					id, _ := record.ParseFileName(name)
					covered := slices.ContainsFunc(m.Segments, func(e seglog.ManifestSegment) bool {
						line, _, _ := strings.Cut(logtest.ContentOfFile(t, image, "db/"+e.ID.FileName()), "\n")
						h, _, err := record.ParseSegmentHeader([]byte(line + "\n"))
						return err != nil || h.ID.Generation() > id.Generation() && h.ID.Order() <= id.Order() && id.Order() <= h.Through
					})
					if _, there := m.Find(id); there || !old || !manifest && !covered {
						continue
					}
					file, err := image.Open("db/"+name, vfs.Create)
					if errors.Is(err, fs.ErrExist) {
						continue
					}
					if err == nil {
						_, err = file.WriteAt([]byte(text), 0)
						err = errors.Join(err, file.Close())
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				where := fmt.Sprintf("seed %d, manifest %v, files that were replaced %v", seed, manifest, old)
				report, err := engine.RepairImage(image)
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				storetest.WantSound(t, image, "mended")
				if got := storetest.ContentIn(t, image, "mended"); got != want {
					t.Fatalf("%s: it holds\n%s, want\n%s\n%+v", where, got, want, report.Lost)
				}
				for _, l := range report.Lost {
					// A run without live records has left no file. Without the manifest that cannot be
					// distinguished from a missing file; no bytes of existing files may be called lost.
					gone := !manifest && l.Bytes == 0 && strings.Contains(l.Reason, "missing")
					if !strings.HasSuffix(l.File, seglog.ManifestName) && !gone {
						t.Errorf("%s: lost is %+v", where, l)
					}
				}
			}
		}
	}
}
