package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/vfs"
)

func longTest() bool { return crashtest.Long() }

// testOptions are those of a log in memory, without goroutines, with small segments and a small ring.
func testOptions(fsys vfs.FS, change ...func(*options)) *options {
	o := newOptions(nil)
	n := uint64(0)
	o.fsys, o.inline = fsys, true
	o.random = func() uint64 { n++; return n * 0x9e3779b97f4a7c15 }
	o.segmentBytes, o.segmentSlots = 20_000, 200
	o.dataRing, o.frameRing, o.bypass, o.roomKept = 4096, 4096, 700, 2000
	o.report = func(error) {}
	for _, f := range change {
		f(o)
	}
	return o
}

// accepted lets a copy of a log that was not closed open.
func accepted(o *options) { o.acceptCopy = true }

func mustOpen(t *testing.T, fsys vfs.FS, change ...func(*options)) *Log {
	t.Helper()
	l, err := open("log", testOptions(fsys, change...))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustAppend(t *testing.T, l *Log, p []byte) Address {
	t.Helper()
	at, err := l.Append(p)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func mustClose(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// bothWays runs a test with the ring and without.
func bothWays(t *testing.T, test func(t *testing.T, change func(*options))) {
	t.Run("ring", func(t *testing.T) { test(t, func(*options) {}) })
	t.Run("no ring", func(t *testing.T) { test(t, func(o *options) { o.dataRing = 0 }) })
}

// text returns the i-th entry of n bytes.
func text(i, n int) []byte {
	p := make([]byte, n)
	x := uint32(i)*2654435761 + 12345
	for j := range p {
		x = x*1664525 + 1013904223
		p[j] = "abcdefghijklmnopqrstuvwxyz \n\x00\xff"[x>>24%30]
	}
	return p
}

// problem compares a log with the entries that it should hold, and with its first address.
func problem(l *Log, want [][]byte, first Address) error {
	all := bytes.Join(want, nil)
	if l.Size() != int64(len(all)) {
		return fmt.Errorf("it has %d bytes, want %d", l.Size(), len(all))
	}
	if l.First() != first {
		return fmt.Errorf("it begins at %d, want %d", l.First(), first)
	}
	got := make([]byte, len(all)-int(first)+1)
	n, err := l.ReadAt(got, int64(first))
	if n != len(all)-int(first) || err != io.EOF {
		return fmt.Errorf("ReadAt: %d, %w", n, err)
	}
	if !bytes.Equal(got[:n], all[first:]) {
		return errors.New("the bytes are not what was written")
	}
	at, i := Address(0), 0
	for ; at < first; i++ {
		at += Address(len(want[i]))
	}
	for e, err := range l.Entries(0) {
		switch {
		case err != nil:
			return fmt.Errorf("Entries: %w", err)
		case i >= len(want) || e.Address != at || !bytes.Equal(e.Data, want[i]):
			return fmt.Errorf("entry %d: %d bytes at %d, other than the written ones", i, len(e.Data), e.Address)
		}
		at, i = at+Address(len(e.Data)), i+1
	}
	if i != len(want) {
		return fmt.Errorf("%d entries, want %d", i, len(want))
	}
	return nil
}

// needsRing skips a test that is about the ring where nothing is mapped, so that there is none.
func needsRing(t *testing.T, l *Log) {
	t.Helper()
	if l.tails.Ring == nil {
		t.Skip("skipped: nothing is mapped here, so there is no ring")
	}
}
