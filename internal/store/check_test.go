package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestCheckOfRecordsFlippedInTheRing: what is not in the file yet is damaged in the ring, and a
// later record is not. That is damage, and said to be in the ring.
func TestCheckOfRecordsFlippedInTheRing(t *testing.T) {
	needsRing(t)
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for i := range 5 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	dead := mem.ProcessCrash()
	at := int64(bytes.Index(read(t, dead, seglog.RingName), []byte("key 0")))
	change(t, dead, "db/"+seglog.RingName, func(f vfs.File) error {
		_, err := f.WriteAt([]byte("~"), at)
		return err
	})
	if _, err := Open("db", testOptions(dead)); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
	if r, err := Check(context.Background(), "db", dead, nil); err != nil || len(r.Problems) != 1 || filepath.Base(r.Problems[0].File) != seglog.RingName {
		t.Errorf("Check: %+v, %v", r, err)
	}
}

// Check beside a writer that closes, between its looks at the manifest and at the ring, finds nothing damaged.
func TestCheckBesideAClose(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, noSnapshot)
	mustSet(t, s, "a", "1")
	closed := false
	report, err := Check(context.Background(), "db", &stepFS{FS: mem, opening: func(name string) {
		if filepath.Base(name) == seglog.RingName && !closed {
			closed = true
			mustClose(t, s)
		}
	}}, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check: %v, %v", report.Problems, err)
	}
	if !closed {
		mustClose(t, s)
	}
}
