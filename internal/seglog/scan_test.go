package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/record"
)

// TestResumeEffortIsLimited: values that imitate records do not keep the search for the next record
// busy. It gives up when it has checksummed four times the size of the file.
func TestResumeEffortIsLimited(t *testing.T) {
	const salt record.Salt = 5
	var text []byte
	seq := uint64(0)
	add := func(key, value string) {
		seq++
		h := record.Head{Op: record.Set, Kind: record.Value, Seq: seq}
		text = salt.Append(text, int64(len(text)), &h, []byte(key), []byte(value))
	}
	add("a", "1")
	for _, seq := range []string{"0", "3"} { // one that cannot be, one that can
		fake := strings.Repeat("00000000 Sv 0 0 "+seq+" 0 0 80000 ", 1<<20/31)
		for i := range 8 {
			add(fmt.Sprint("k", i), fake)
		}
	}
	add("last", "1")
	size := int64(len(text))
	sc := &Scanner{File: bytes.NewReader(text), Salt: salt + 1, End: size, Last: 1} // finds nothing
	found, err := sc.Resume()
	if found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	if !sc.GaveUp {
		t.Error("the search has looked at everything: this tests nothing")
	}
	if limit := 4*size + 32<<20; sc.Effort > limit {
		t.Errorf("%d bytes were checksummed for a file of %d", sc.Effort, size)
	}
}

// countedReads counts the calls of ReadAt.
type countedReads struct {
	io.ReaderAt
	calls int
}

func (c *countedReads) ReadAt(p []byte, off int64) (int, error) {
	c.calls++
	return c.ReaderAt.ReadAt(p, off)
}

// TestResumeReadsTheFileOnce: places that cannot be the next record do not move the window of the
// search. A ring that has gone round is full of them.
func TestResumeReadsTheFileOnce(t *testing.T) {
	text := strings.Repeat("00000000 Sv 0 0 1 0 0 7 key value\n", 1<<20/34)
	c := &countedReads{ReaderAt: strings.NewReader(text)}
	sc := &Scanner{File: c, End: int64(len(text)), Last: 1}
	if found, err := sc.Resume(); found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	if most := len(text)/ScanWindow + 2; c.calls > most {
		t.Errorf("%d reads of %d bytes, at most %d are needed", c.calls, len(text), most)
	}
}

// TestScanGoesBack: a search that has found nothing has moved the window to the end of the file,
// and the next record is read from before it. That happens when only the ring has the records after
// damage.
func TestScanGoesBack(t *testing.T) {
	const salt record.Salt = 5
	h := record.Head{Op: record.Set, Kind: record.Value, Seq: 1}
	text := salt.Append(nil, 0, &h, []byte("key"), []byte("value"))
	text = append(text, make([]byte, 3*ScanWindow)...)
	sc := &Scanner{File: bytes.NewReader(text), Salt: salt, End: int64(len(text))}
	if _, _, err := sc.Next(); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 1, ScanWindow} {
		if found, err := sc.Resume(); found || err != nil {
			t.Fatal(found, err)
		}
		sc.Offset, sc.Last = at, 0
		var damage *Damage
		if _, e, err := sc.Next(); at == 0 && (err != nil || string(e.Key) != "key") || at > 0 && !errors.As(err, &damage) {
			t.Errorf("at %d: %v, %v", at, e, err)
		}
	}
}
