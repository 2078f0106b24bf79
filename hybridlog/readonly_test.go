package hybridlog

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/vfs"
)

// A read-only log verifies again, too.
func TestReadOnlyVerifiesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		l := mustOpen(t, mem)
		mustAppend(t, l, text(1, 9000))
		mustClose(t, l)
		l = mustOpen(t, mem, func(o *options) { o.inline, o.readOnly = false, true })
		b := make([]byte, 100)
		if _, err := l.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		flip(t, mem, "log/00000001.log", 80)
		time.Sleep(2 * trustFor)
		synctest.Wait()
		if _, err := l.ReadAt(b, 0); !errors.Is(err, ErrCorrupt) {
			t.Errorf("ReadAt: %v", err)
		}
		mustClose(t, l)
	})
}

// Compaction and trimming by a writer are no damage in a log that is open read-only.
func TestReadOnlyBesideCompaction(t *testing.T) {
	mem := vfs.NewMem()
	var want [][]byte
	for i := range 4 {
		l := mustOpen(t, mem)
		want = append(want, text(i, 300))
		mustAppend(t, l, want[i])
		mem = mem.ProcessCrash()
	}
	l := mustOpen(t, mem)
	mustAppend(t, l, []byte("more"))
	want = append(want, []byte("more"))
	readOnly := func(o *options) { o.readOnly = true }
	var logs []*Log
	for range 4 {
		logs = append(logs, mustOpen(t, mem, readOnly))
	}
	if err := l.Compact(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, text(9, 30_000))
	if err := problem(logs[0], want, 0); err != nil {
		t.Errorf("after a compaction: %v", err)
	}
	if err := logs[1].View(250, 100, func([]byte) error { return nil }); err != nil {
		t.Errorf("View after a compaction: %v", err)
	}
	for e, err := range logs[2].Entries(0) {
		if err != nil {
			t.Errorf("Entries after a compaction: %v, %v", e, err)
		}
	}
	if err := l.Trim(Address(l.Size())); err != nil {
		t.Fatal(err)
	}
	if _, err := logs[3].ReadAt(make([]byte, 10), 0); !errors.Is(err, ErrTrimmed) {
		t.Errorf("ReadAt after a trim: %v", err)
	}
	for _, x := range append(logs, l) {
		mustClose(t, x)
	}
}

// A reader reports the same entries as durable as a writer that opens the log then, and no more.
func TestDurableForReaders(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		readOnly := func(o *options) { o.readOnly = true }
		mem := vfs.NewCrashMem()
		durable := func() Address {
			t.Helper()
			r := mustOpen(t, mem, change, readOnly)
			defer mustClose(t, r)
			return r.Stats().Durable
		}
		l := mustOpen(t, mem, change)
		for i, want := range []Address{0, 3000, 6000} {
			mustAppend(t, l, text(i, 3000))
			if got := durable(); got != want {
				t.Errorf("%d bytes are durable, says a reader, and %d are", got, want)
			}
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, l, text(9, 100))
		mem = mem.ProcessCrash()
		got := durable()
		l = mustOpen(t, mem, change)
		if want := l.Stats().Durable; got != want || want != 9000 {
			t.Errorf("%d bytes are durable, says a reader, and %d, says a writer", got, want)
		}
		mustAppend(t, l, text(10, 100))
		mustClose(t, l)
		if got := durable(); got != 9200 {
			t.Errorf("%d bytes are durable of a closed log", got)
		}
	})
}
