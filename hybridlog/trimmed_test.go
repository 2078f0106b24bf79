package hybridlog

import (
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// Trimmed bytes are not verified: whatever has become of them, the log opens, the rest of their
// segment and all later ones can be read, and compaction removes them.
func TestTrimmedIsNotJudged(t *testing.T) {
	for _, x := range []struct {
		bytes, entries, gone int
		policy               SyncPolicy
		closed               bool
	}{
		{900, 12, 7, NoSync, true},
		{900, 12, 7, NoSync, false},
		{900, 12, 7, AlwaysSync, false},
		{1024, 12, 8, NoSync, false}, // up to where a block ends
		{900, 7, 7, NoSync, false},   // all there is
		{900, 7, 7, NoSync, true},
	} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			conf := func(o *options) { change(o); o.policy = x.policy }
			mem := vfs.NewMem()
			l := mustOpen(t, mem, conf)
			var want [][]byte
			for i := range x.entries {
				want = append(want, text(i, x.bytes))
				mustAppend(t, l, want[i])
			}
			first := Address(x.gone * x.bytes)
			if err := l.Trim(min(first+10, Address(l.Size()))); err != nil {
				t.Fatal(err)
			}
			if x.gone < x.entries {
				want = append(want, text(99, 50))
				mustAppend(t, l, want[x.entries])
			}
			if x.closed {
				mustClose(t, l)
			} else {
				mem = mem.ProcessCrash()
			}
			m, _, err := readManifest(mem, "log")
			if err != nil || m.first != first {
				t.Fatalf("it is trimmed up to %d, %v", m.first, err)
			}
			judge := func(name string, from, to int64, step int64) {
				for bit := from * 8; bit < to*8; bit += step {
					for _, life := range []string{mem.CacheID("log"), "another-life"} {
						dead := mem.ProcessCrash()
						dead.SetCacheID(life)
						flip(t, dead, "log/"+name, int(bit))
						if err := trimmedAway(t, dead, want, first, conf); err != nil {
							t.Fatalf("%+v: bit %d of %s is flipped: %v", x, bit, name, err)
						}
					}
				}
			}
			judge("00000001.log", 0, m.trimmed.end, 13*37)
			judge("00000001.sum", headerBytes, headerBytes+m.trimmed.frames*frameBytes, 11)
		})
	}
}

// trimmedAway opens a log, reads and writes it, compacts it, and opens it again.
func trimmedAway(t *testing.T, mem *vfs.Mem, want [][]byte, first Address, change func(*options)) error {
	l, err := open("log", testOptions(mem, change))
	if err != nil {
		return err
	}
	if err := problem(l, want, first); err != nil {
		return err
	}
	p := text(99, 10)
	want = append(want[:len(want):len(want)], p)
	if _, err := l.Append(p); err != nil {
		return err
	}
	if err := errors.Join(l.Trim(first+5), l.Compact(), problem(l, want, first), l.Close()); err != nil {
		return err
	}
	if l, err = open("log", testOptions(mem, change)); err != nil {
		return err
	}
	return errors.Join(problem(l, want, first), l.Close())
}

// A manifest that says that more is trimmed than the log has is damage: nothing could be read after
// it.
func TestTrimmedBeyondTheEnd(t *testing.T) {
	for _, closed := range []bool{true, false} {
		mem := vfs.NewMem()
		l := mustOpen(t, mem)
		mustAppend(t, l, text(1, 900))
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		if closed {
			mustClose(t, l)
		} else {
			mem = mem.ProcessCrash()
		}
		m, _, err := readManifest(mem, "log")
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range []func(){
			func() { m.first = 901 },
			func() { m.first, m.trimmed = 2000, trimPlace{place{2000, 1}, 5} },
			func() { m.first, m.trimmed = 900, trimPlace{place{900, 7}, 5} },
			func() { m.first, m.trimmed = 900, trimPlace{place{4096, 1}, 5} },
			func() { m.first, m.trimmed = 900, trimPlace{place{900, 1}, 5} }, // and the file is cut
		} {
			change()
			dead := mem.ProcessCrash()
			f, err := dead.Open("log/00000001.log", vfs.ReadWrite)
			if err == nil && m.trimmed.frames == 1 && m.trimmed.end == 900 {
				err = f.Truncate(899)
			}
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			replacement{"changed", manifestName, m.encode()}.do(t, dead)
			if _, err := open("log", testOptions(dead, accepted)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("closed %v, trimmed up to %d: Open: %v", closed, m.first, err)
			}
		}
	}
}
