package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A copy of a store that was not closed opens only if the caller accepts it: it may lack acknowledged writes.
func TestCopyOfAKilledStore(t *testing.T) { logtest.BothWays(t, copyOfAKilledStore) }

func copyOfAKilledStore(t *testing.T) {
	readOnly := func(o *Options) { o.ReadOnly = true }
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for i := range 20 {
		mustSet(t, s, fmt.Sprint("k", i), "v")
	}
	for what, original := range map[string]*vfs.Mem{"at work": mem, "killed": mem.ProcessCrash()} {
		image := logtest.Copy(t, original, "db")
		refused := func(when string) {
			t.Helper()
			before := logtest.Contents(t, image)
			for _, change := range [][]func(*Options){{}, {readOnly}, {noSnapshot}} {
				s, err := Open("db", testOptions(image, change...))
				if err == nil {
					mustClose(t, s)
				}
				if !errors.Is(err, seglog.ErrCopied) || errors.Is(err, seglog.ErrCorrupt) || !strings.Contains(err.Error(), "copal: db is a copy") {
					t.Fatalf("%s, %s: Open: %v", what, when, err)
				}
			}
			if !logtest.SameFiles(before, logtest.Contents(t, image)) {
				t.Errorf("%s, %s: the copy was refused, and changed", what, when)
			}
			if report, err := Check(context.Background(), "db", image, nil); err != nil || !errors.Is(report.Copied, seglog.ErrCopied) || len(report.Problems) > 0 || report.Keys != 20 {
				t.Errorf("%s, %s: Check: %+v, %v", what, when, report, err)
			}
		}
		refused("at first")
		r := mustOpen(t, image, accepted, readOnly)
		wantValue(t, r, "k19", "v")
		mustClose(t, r)
		refused("when it was read")

		used := image.ProcessCrash()
		for name, use := range map[string]func(s *Store) *vfs.Mem{
			"closed": func(s *Store) *vfs.Mem { mustClose(t, s); return used },
			"written to": func(s *Store) *vfs.Mem {
				mustSet(t, s, "k19", "v")
				return used.ProcessCrash()
			},
		} {
			used = image.ProcessCrash()
			own := use(mustOpen(t, used, accepted))
			if report, err := Check(context.Background(), "db", own, nil); err != nil || report.Copied != nil || len(report.Problems) > 0 {
				t.Errorf("%s, %s: Check: %+v, %v", what, name, report, err)
			}
			s := mustOpen(t, own)
			for i := range 20 {
				wantValue(t, s, fmt.Sprint("k", i), "v")
			}
			mustClose(t, s)
		}
	}

	mustClose(t, s)
	s = mustOpen(t, logtest.Copy(t, mem, "db"))
	wantValue(t, s, "k19", "v")
	mustClose(t, s)
}

// A kill and a power cut leave the store itself, and no copy: that no acceptance is wanted is also tested by each crash
// in this package.
func TestCrashLeavesNoCopy(t *testing.T) {
	mem := vfs.NewCrashMem()
	s := mustOpen(t, mem)
	if err := s.Set(nil, []byte("k"), []byte("v"), 0, Power); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "k2", "v")
	images := []*vfs.Mem{mem.ProcessCrash()}
	for image := range mem.PowerCuts(20, nil) {
		images = append(images, image)
	}
	for _, image := range images {
		if report, err := Check(context.Background(), "db", image, nil); err != nil || report.Copied != nil {
			t.Errorf("Check: %v, %v", report.Copied, err)
		}
		s := mustOpen(t, image)
		wantValue(t, s, "k", "v")
		mustClose(t, s)
	}
}

// A copy that cannot be made a store of its own, for want of room, keeps its content, and has to be accepted again.
func TestCopyIsAcceptedOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "k", "v")
	image := logtest.Copy(t, mem, "db")
	full := vfs.Inject(image, &vfs.Fault{Kinds: vfs.OpCreate, N: 1, Forever: true, Err: vfs.ErrNoSpace})
	s = mustOpen(t, full, accepted)
	wantValue(t, s, "k", "v")
	mustClose(t, s)
	if _, err := Open("db", testOptions(image)); !errors.Is(err, seglog.ErrCopied) {
		t.Errorf("Open: %v", err)
	}
	s = mustOpen(t, image, accepted)
	wantValue(t, s, "k", "v")
	mustClose(t, s)
	mustClose(t, mustOpen(t, image))
}

// Repair makes a store of a copy, and does not call it complete.
func TestRepairOfACopy(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "k", "v")
	image := logtest.Copy(t, mem, "db")
	report, err := repair.Repair(t.Context(), "db", "new", repair.Options{FS: image})
	if err != nil || report.Saved == 0 || !slices.ContainsFunc(report.Lost, func(l repair.Loss) bool {
		return l.File == "db/"+seglog.ManifestName && strings.Contains(l.Reason, "copy") && !l.Torn
	}) {
		t.Fatalf("%+v, %v", report, err)
	}
	s, err = Open("new", testOptions(image))
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "k", "v")
	mustClose(t, s)
}
