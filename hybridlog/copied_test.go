package hybridlog

import (
	"bytes"
	"errors"
	"maps"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// A copy of a log that was not closed opens only if the caller accepts it, and is a log of its own when it was written
// to or closed.
func TestCopyOfAKilledLog(t *testing.T) {
	readOnly := func(o *options) { o.readOnly = true }
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, change)
		want := [][]byte{text(0, 900), text(1, 300), text(2, 30)}
		for _, p := range want {
			mustAppend(t, l, p)
		}
		holds := func(l *Log) {
			t.Helper()
			if err := errors.Join(problem(l, want, 0), l.Close()); err != nil {
				t.Error(err)
			}
		}
		for _, original := range []*vfs.Mem{mem, mem.ProcessCrash()} {
			image := logtest.Copy(t, original, "log")
			before := filesOf(t, image)
			refused := func() {
				t.Helper()
				for _, how := range []func(*options){change, readOnly} {
					if _, err := open("log", testOptions(image, change, how)); !errors.Is(err, ErrCopied) || errors.Is(err, ErrCorrupt) {
						t.Fatalf("Open: %v", err)
					}
				}
				if !maps.EqualFunc(filesOf(t, image), before, bytes.Equal) {
					t.Error("the copy was refused, or read, and changed")
				}
			}
			refused()
			holds(mustOpen(t, image, change, readOnly, accepted))
			refused()

			written := image.ProcessCrash()
			x := mustOpen(t, written, change, accepted)
			mustAppend(t, x, text(3, 40))
			dead := written.ProcessCrash()
			again := mustOpen(t, dead, change)
			if err := problem(again, append(want[:len(want):len(want)], text(3, 40)), 0); err != nil {
				t.Error(err)
			}
			mustClose(t, again)

			holds(mustOpen(t, image, change, accepted))
			holds(mustOpen(t, image, change))
			holds(mustOpen(t, image, change, readOnly))
		}
		holds(l)
		holds(mustOpen(t, logtest.Copy(t, mem, "log"), change))
	})
}

// A kill and a power cut leave the log itself, and no copy.
func TestCrashLeavesNoCopy(t *testing.T) {
	mem := vfs.NewCrashMem()
	l := mustOpen(t, mem)
	mustAppend(t, l, text(0, 900))
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, mem.ProcessCrash()))
	for image := range mem.PowerCuts(20, nil) {
		mustClose(t, mustOpen(t, image))
	}
}

// A reader that was opened before the files were copied, as overlayfs does for a writer, reads the
// same as before.
func TestReaderOfFilesThatAreExchanged(t *testing.T) {
	for _, closed := range []bool{true, false} {
		mem := vfs.NewMem()
		l := mustOpen(t, mem)
		want := [][]byte{text(0, 900), text(1, 300)}
		for _, p := range want {
			mustAppend(t, l, p)
		}
		if closed {
			mustClose(t, l)
		} else {
			mem = mem.ProcessCrash()
		}
		reader := mustOpen(t, mem, func(o *options) { o.readOnly = true })
		for name := range filesOf(t, mem) {
			if err := logtest.CopyFile(mem, mem, "log/"+name); err != nil {
				t.Fatal(err)
			}
		}
		l = mustOpen(t, mem, accepted)
		for i := range 20 {
			mustAppend(t, l, text(i, 900))
			if err := problem(reader, want, 0); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, l)
		if err := errors.Join(problem(reader, want, 0), reader.Close()); err != nil {
			t.Error(err)
		}
	}
}
