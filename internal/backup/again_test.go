package backup

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestBackupOfAMomentIsRunAgain after it was killed at any operation: the same backup ends it, and nothing but a whole
// one is refused.
func TestBackupOfAMomentIsRunAgain(t *testing.T) {
	mem := vfs.NewCrashMem()
	s := storetest.Open(t, mem, smallSegments)
	storetest.FillFrom(t, s, 0, 20)
	at, then := seglog.AtSeq(s.Log().Last()), storetest.Content(t, s)
	storetest.FillFrom(t, s, 20, 10)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	deaths, whole := 0, 0
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if phase == vfs.Before {
			return
		}
		image := mem.ProcessCrash()
		again := storetest.Open(t, image, smallSegments)
		defer again.Close()
		deaths++
		if _, err := Make(t.Context(), again, "copy", Options{At: &at}); errors.Is(err, fs.ErrExist) {
			whole++
		} else if err != nil {
			t.Fatalf("death at %v: the same backup again: %v", op, err)
		}
		if got := storetest.ContentIn(t, image, "copy"); got != then {
			t.Fatalf("death at %v: the backup holds\n%s", op, got)
		}
		storetest.WantSound(t, image, "copy")
	})
	if _, err := Make(t.Context(), s, "copy", Options{At: &at}); err != nil {
		t.Fatal(err)
	}
	mem.OnBoundary(nil)
	if storetest.Close(t, s); deaths < 20 || whole == 0 || whole > 3 {
		t.Errorf("of %d deaths %d left a whole backup", deaths, whole)
	}
}

// TestRestoreGivesUpAtAPowerCut: after a restore that gives up, and removes its files, no power cut
// leaves a part without the note of it.
func TestRestoreGivesUpAtAPowerCut(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, smallSegments)
	storetest.FillFrom(t, s, 0, 30)
	mustBackup(t, s, "copy")
	storetest.Close(t, s)
	image := mem.ProcessCrash()
	image.Record()
	ctx, cancel := context.WithCancel(t.Context())
	states := 0
	image.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		for cut := range image.PowerCuts(20, nil) {
			states++
			r, err := store.Open("new", storetest.Options(cut, func(o *engine.Options) { o.ReadOnly = true }))
			switch {
			case err == nil:
				if got := storetest.Content(t, r); got != "" {
					t.Errorf("power cut at %v: it holds\n%s", op, got)
				}
				storetest.Close(t, r)
			case !errors.Is(err, seglog.ErrUnfinished) && !errors.Is(err, fs.ErrNotExist):
				t.Errorf("power cut at %v: %v", op, err)
			}
		}
	})
	_, err := Restore(ctx, "copy", "new", Options{FS: image, Progress: func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	}})
	if image.OnBoundary(nil); !errors.Is(err, context.Canceled) || states == 0 {
		t.Errorf("%v, %d states", err, states)
	}
}
