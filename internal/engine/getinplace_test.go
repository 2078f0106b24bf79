package engine

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestReadsOfADamagedRing changes a byte of the ring under the map. A reader gets the written
// value, or an error. When the ring has been drained, it is damage in the log.
func TestReadsOfADamagedRing(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "synced", "before")
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	from := logtest.SizeOf(t, mem, "db/00000001.log")
	want := map[string]string{"synced": "before", "a": "1", "b": strings.Repeat("value ", 20), "c": ""}
	for _, key := range []string{"a", "b", "c"} {
		mustSet(t, s, key, want[key])
	}
	to := int64(len(bytes.TrimRight(logtest.Read(t, mem, seglog.RingName), "\x00"))) - seglog.RingHead
	flipByte := func(at int64) {
		logtest.Change(t, mem, "db/"+seglog.RingName, func(f vfs.File) error { return logtest.Flip(f, seglog.RingHead+at, 4) })
	}
	damaged := func() (damaged int) {
		t.Helper()
		for key, value := range want {
			var viewed []byte
			e, err := s.Get(nil, []byte(key))
			viewErr := s.ViewValue([]byte(key), nil, func(b []byte, _ uint64) error { viewed = bytes.Clone(b); return nil })
			for _, read := range []struct {
				value []byte
				err   error
			}{{e.Value, err}, {viewed, viewErr}} {
				switch {
				case errors.Is(read.err, seglog.ErrCorrupt):
					damaged++
				case read.err != nil || string(read.value) != value:
					t.Errorf("%s is read as %q, %v", key, read.value, read.err)
				}
			}
		}
		return damaged
	}
	for at := from; at < to; at++ {
		flipByte(at)
		if damaged() == 0 {
			t.Errorf("byte %d is changed, and nobody notices", at)
		}
		flipByte(at)
	}
	if n := damaged(); n > 0 {
		t.Errorf("%d reads find damage that is not there any more", n)
	}
	flipByte(to - 30)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if damaged() == 0 {
		t.Error("the damage has gone when it was drained")
	}
	mustClose(t, s)
	if _, err := Open("db", testOptions(mem, noSnapshot)); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
}
