package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// wasteful is a store of many segments, of which all but little is garbage.
func wasteful(t *testing.T) *Store {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes, o.NoCompaction = 4000, true })
	for i := range 600 {
		mustSet(t, s, fmt.Sprintf("key %d", i%20), strings.Repeat("x", 100))
	}
	return s
}

// Progress never goes back, and ends where nothing is left to be done.
func TestCompactAllTellsHowFarItIs(t *testing.T) {
	s := wasteful(t)
	before := s.garbage()
	last, calls := int64(0), 0
	err := s.Compact(t.Context(), func(done, total int64) {
		if done < last || done > total || total < before {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		if calls++; calls == 3 && (done == 0 || done == total) {
			t.Errorf("%d of %d in the midst of it", done, total)
		}
		last = done
	})
	if err != nil || calls < 5 || last < before {
		t.Errorf("%d calls, the last with %d of %d: %v", calls, last, before, err)
	}
	if left := s.garbage(); left > before/20 {
		t.Errorf("%d bytes of garbage are left of %d", left, before)
	}
	mustClose(t, s)
}

// Whoever ends it early keeps what was gained, and all that is in the store.
func TestCompactAllEndsWithItsContext(t *testing.T) {
	s := wasteful(t)
	before := s.garbage()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := s.Compact(ctx, func(done, total int64) {
		if calls++; calls == 4 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || calls != 4 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if left := s.garbage(); left == 0 || left >= before {
		t.Errorf("%d bytes of garbage are left of %d", left, before)
	}
	for i := range 20 {
		wantValue(t, s, fmt.Sprintf("key %d", i), strings.Repeat("x", 100))
	}
	if err := s.Compact(context.Background(), nil); err != nil || s.garbage() > before/20 {
		t.Errorf("afterwards: %v, %d bytes of garbage", err, s.garbage())
	}
	mustClose(t, s)
}
