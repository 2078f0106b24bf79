package engine

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// The content of a mark of a newer version is unknown: unlike a torn one, it is not ignored.
func TestNewerMark(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "k", "v")
	mustClose(t, s)
	logtest.Change(t, mem, "db/"+seglog.MarkName, func(f vfs.File) error {
		b := make([]byte, files.SlotBytes)
		if _, err := f.ReadAt(b, 0); err != nil {
			return err
		}
		b = record.Seal(bytes.Replace(b[:len(b)-10], []byte("synced 1"), []byte("synced 2"), 1))
		_, err := f.WriteAt(b, 0)
		return err
	})
	if _, err := Open("db", testOptions(mem)); !errors.Is(err, seglog.ErrVersion) {
		t.Errorf("Open: %v, want ErrVersion", err)
	}
	if report, err := Check(context.Background(), "db", mem, nil); err == nil && report.Version == nil {
		t.Errorf("Check: %+v", report)
	}
}

// A mark that cannot be read is no mark that is not there: numbered anew, the next one would count
// as the older.
func TestMarkerReturnsErrorsOfReads(t *testing.T) {
	for n := 1; n <= 2; n++ {
		mem := vfs.NewMem()
		s := mustOpen(t, mem, noSnapshot)
		mustSet(t, s, "a", "1")
		mustClose(t, s)
		before, err := seglog.ReadMark(mem, "db", s.log.StoreID)
		if err != nil || before == nil {
			t.Fatal(before, err)
		}
		armed := false
		ofMark := func(name string) bool { return armed && filepath.Base(name) == seglog.MarkName }
		s = mustOpen(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpRead, N: n, Err: syscall.EIO, Match: ofMark}), noSnapshot)
		armed = true
		if err := s.Set(nil, []byte("b"), []byte("2"), 0, Process); !errors.Is(err, syscall.EIO) || errors.Is(err, seglog.ErrReadOnly) {
			t.Errorf("a write when read %d of the mark fails: %v", n, err)
		}
		if m, err := seglog.ReadMark(mem, "db", s.log.StoreID); err != nil || *m != *before {
			t.Errorf("when read %d fails the mark is %+v, %v; it was %+v", n, m, err, before)
		}
		mustSet(t, s, "b", "2")
		if m, err := seglog.ReadMark(mem, "db", s.log.StoreID); err != nil || m.Edit <= before.Edit {
			t.Errorf("after read %d has failed the mark is %+v, %v; it was %+v", n, m, err, before)
		}
		mustClose(t, s)
	}
}
