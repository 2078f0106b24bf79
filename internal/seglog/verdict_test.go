package seglog

import (
	"bytes"
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"

	"github.com/copaldb/copal/internal/vfs"
)

// Any bit of the last acknowledged record is flipped, wherever it is, and the page cache has
// survived. The death of a process does not do that, so it is damage.
func TestDamagedLastRecord(t *testing.T) { logtest.BothWays(t, damagedLastRecord) }

func damagedLastRecord(t *testing.T) {
	for _, drained := range []bool{false, true} {
		mem := vfs.NewMem()
		s := mustLog(t, mem)
		setIn(t, s, "k", "old")
		from := s.Tail.End.Load()
		setIn(t, s, "k", "new")
		if drained {
			if err := s.DrainTail(true); err != nil {
				t.Fatal(err)
			}
		}
		end := s.Tail.End.Load()
		for at := from; at < end; at++ {
			for bit := range 8 {
				dead := mem.ProcessCrash()
				flip := func(path string, at int64) {
					logtest.Change(t, dead, path, func(f vfs.File) error {
						b := make([]byte, 1)
						if _, err := f.ReadAt(b, at); err != nil {
							return err
						}
						b[0] ^= 1 << bit
						_, err := f.WriteAt(b, at)
						return err
					})
				}
				ring := s.Ring != nil
				if ring {
					flip("db/"+RingName, RingHead+at%logtest.TestRing)
				}
				if drained || !ring {
					flip("db/00000001.log", at)
				}
				found, err := openLog(dead, inline)
				if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				e, err := found.read("k")
				if text, _, _ := files.Read(dead, "db/00000001.log", 1<<20); !ring && lengthened(text[from:]) {
					continue // to the file alone it looks as if the rest were missing
				}
				t.Errorf("drained %v: bit %d of byte %d of the last record flipped: Open: nil; k is %q, %v", drained, bit, at-from, e.Value, err)
			}
		}
	}
}

// lengthened reports whether a record states a length beyond the end of the file.
func lengthened(b []byte) bool {
	_, _, err := (&Scanner{File: bytes.NewReader(b), End: int64(len(b))}).Next()
	var d *Damage
	return errors.As(err, &d) && d.Reason.Error() == "the record is incomplete"
}
