package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// askedFS has files that note the requested ranges.
type askedFS struct {
	vfs.FS
	asked map[string][][2]int64 // by name, from and to
}

type askedFile struct {
	vfs.File
	fs   *askedFS
	name string
}

func (f *askedFS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	file, err := f.FS.Open(name, mode)
	return &askedFile{file, f, filepath.Base(name)}, err
}

func (f *askedFile) Prefetch(off, n int64) {
	f.fs.asked[f.name] = append(f.fs.asked[f.name], [2]int64{off, off + n})
}

// TestIterationAsksAhead: an iteration goes in the order of places, and records close together have been
// requested ahead.
func TestIterationAsksAhead(t *testing.T) {
	for _, test := range []struct {
		bytes int
		keys  bool
		want  bool
	}{{1000, false, true}, {1000, true, true}, {100_000, false, true}, {100_000, true, false}, {900_000, false, false}} {
		fsys := &askedFS{vfs.NewMem(), map[string][][2]int64{}}
		s := mustOpen(t, fsys, func(o *Options) { o.SegmentBytes = 4 << 20 })
		n := 12<<20/test.bytes + 3
		for i := range n {
			mustSet(t, s, fmt.Sprint("key ", i), strings.Repeat("x", test.bytes))
		}
		list := s.Items(s.spaces[0].raw)
		if test.keys {
			list = s.Keys(s.spaces[0].raw)
		}
		var last seglog.Address
		found, asked, turns := 0, 0, 0
		for item := range list {
			hit, err := s.spaces[0].raw.find(s.seed.Bytes(item.Key), item.Key)
			if err != nil || item.Err != nil {
				t.Fatal(err, item.Err)
			}
			if hit.address < last {
				turns++
			}
			last = hit.address
			found++
			slot, from := seglog.SplitAddress(hit.address)
			to := from + int64(test.bytes)
			if slices.ContainsFunc(fsys.asked[s.log.Segment(slot).ID.FileName()], func(w [2]int64) bool {
				return w[0] <= from && from < w[1] && min(to, from+1<<20) <= w[1]+int64(test.bytes)+100
			}) {
				asked++
			}
		}
		if turns > 1 { // the first few do not wait for the others
			t.Errorf("%d bytes: %d times back", test.bytes, turns)
		}
		if found != n || (asked > n*9/10) != test.want || !test.want && asked > 0 {
			t.Errorf("%d bytes, keys %v: of %d, %d found, %d asked for", test.bytes, test.keys, n, found, asked)
		}
		mustClose(t, s)
	}
}
