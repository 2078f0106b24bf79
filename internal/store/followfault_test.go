package store

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// TestFollowerMissesNothingAfterAnError: a follower whose look ends with an error, at whatever operation, shows everything after the next one,
// also the record at which it ended.
func TestFollowerMissesNothingAfterAnError(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpRead, vfs.OpOpen} {
		failed := 0
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			writer := mustOpen(t, mem)
			for i := range 20 {
				mustSet(t, writer, fmt.Sprint("k", i), "old")
			}
			broken := false
			failing := &vfs.Fault{Kinds: kind, N: n, Match: func(string) bool { return broken }, Err: syscall.EIO}
			reader := mustOpen(t, vfs.Inject(mem, failing), func(o *Options) { o.ReadOnly = true })
			for i := range 20 {
				switch i % 3 {
				case 0:
					mustSet(t, writer, fmt.Sprint("k", i), "new")
				case 1:
					if _, err := writer.Delete(nil, fmt.Append(nil, "k", i), Process); err != nil {
						t.Fatal(err)
					}
				}
			}
			broken = true
			err := reader.Refresh()
			broken = false
			if err != nil && !errors.Is(err, syscall.EIO) {
				t.Fatalf("%v %d: %v", kind, n, err)
			}
			if err := reader.Refresh(); err != nil {
				t.Fatalf("%v %d: the look after %v", kind, n, err)
			}
			if got, want := render(contentsOf(t, reader)), render(contentsOf(t, writer)); got != want {
				t.Fatalf("%v %d: it holds\n%s, want\n%s", kind, n, got, want)
			}
			mustClose(t, reader)
			mustClose(t, writer)
			if err == nil {
				break
			}
			failed++
		}
		if failed == 0 {
			t.Errorf("%v: nothing failed", kind)
		}
	}
}
