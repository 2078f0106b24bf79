package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
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

// A value in parts is read through a view if its list is in a mapped file.
func TestEntriesOfLargeValues(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, WithRooms(Options{Inline: true}))
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), seglog.PartBytes/8)
	if err := s.Set(nil, []byte("large"), large, 0, Process); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, WithRooms(Options{Inline: true})); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	v := mustView(t, s)
	defer v.Close()
	if e, err := v.Get(nil, []byte("large")); err != nil || !bytes.Equal(e.Value, large) {
		t.Errorf("Get: %d bytes, %v", len(e.Value), err)
	}
	n := 0
	for item := range v.Entries(Span{}) {
		if n++; item.Err != nil || string(item.Key) != "large" || !bytes.Equal(item.Value, large) {
			t.Errorf("%q: %d bytes, %v", item.Key, len(item.Value), item.Err)
		}
	}
	if n != 1 {
		t.Errorf("%d entries", n)
	}
}
