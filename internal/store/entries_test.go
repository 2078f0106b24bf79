package store

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// Where there is little memory, keys are read and sorted several times, and each comes once, in its place.
func TestEntriesInLittleMemory(t *testing.T) {
	defer func(n int) { SortBytes = n }(SortBytes)
	SortBytes = 500
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.MaxMemory = 1 })
	const n = 1000
	for i := range n {
		mustSet(t, s, fmt.Sprintf("key %04d", i*7919%n), fmt.Sprint(i))
	}
	if s.roomToSort() != SortBytes {
		t.Fatalf("there is room for %d bytes", s.roomToSort())
	}
	v := mustView(t, s)
	defer v.Close()
	mustSet(t, s, "key 0500", "changed")
	mustSet(t, s, "key 0500a", "new")
	i := 0
	for item, c := range v.Entries(Span{}) {
		if want := fmt.Appendf(nil, "key %04d", i); item.Err != nil || c != nil || !bytes.Equal(item.Key, want) || string(item.Value) == "changed" || item.Seq == 0 {
			t.Fatalf("entry %d is %q %q, number %d, %v", i, item.Key, item.Value, item.Seq, item.Err)
		}
		i++
	}
	if i != n {
		t.Errorf("%d entries of %d", i, n)
	}
}
