package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestKeysHoldNoValues: a key that an iteration yields does not keep the record it was read from
// in memory.
func TestKeysHoldNoValues(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	mustSet(t, s, "key", strings.Repeat("x", 1<<20))
	for item := range s.Keys(s.Tables()[0]) {
		if cap(item.Key) > 100 {
			t.Errorf("the key has a capacity of %d bytes", cap(item.Key))
		}
	}
}

// TestIterationEndsWhenTheStoreIsClosed: an iteration over a store that is being closed, or was
// closed, yields ErrClosed once and ends.
func TestIterationEndsWhenTheStoreIsClosed(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	for i := range 100 {
		mustSet(t, s, fmt.Sprint(i), "v")
	}
	table := s.Tables()[0]
	n, errs := 0, 0
	for item := range s.Items(table) {
		if item.Err != nil {
			errs++
			continue
		}
		if n++; n == 10 {
			mustClose(t, s)
		}
	}
	if n != 10 || errs != 1 {
		t.Errorf("%d entries and %d errors, want 10 and 1", n, errs)
	}
	for item := range s.Items(table) {
		if item.Err != seglog.ErrClosed {
			t.Errorf("after Close: %+v", item)
		}
		errs++
	}
	if errs != 2 {
		t.Errorf("a loop after Close gives %d errors, want 1", errs-1)
	}
}
