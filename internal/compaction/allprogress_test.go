package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// wasteful is a store of many segments, of which all but little is garbage.
func wasteful(t *testing.T) *engine.Store {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes, o.NoCompaction = 4000, true })
	for i := range 600 {
		storetest.Set(t, s, fmt.Sprintf("key %d", i%20), strings.Repeat("x", 100))
	}
	return s
}

// Progress never goes back, and ends where nothing is left to be done.
func TestCompactAllTellsHowFarItIs(t *testing.T) {
	s := wasteful(t)
	before := compaction.Of(s).Garbage()
	last, calls := int64(0), 0
	err := compaction.Of(s).Compact(t.Context(), func(done, total int64) {
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
	if left := compaction.Of(s).Garbage(); left > before/20 {
		t.Errorf("%d bytes of garbage are left of %d", left, before)
	}
	storetest.Close(t, s)
}

// If it is ended early, the gain and all entries stay.
func TestCompactAllEndsWithItsContext(t *testing.T) {
	s := wasteful(t)
	before := compaction.Of(s).Garbage()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := compaction.Of(s).Compact(ctx, func(done, total int64) {
		if calls++; calls == 4 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || calls != 4 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if left := compaction.Of(s).Garbage(); left == 0 || left >= before {
		t.Errorf("%d bytes of garbage are left of %d", left, before)
	}
	for i := range 20 {
		storetest.Want(t, s, fmt.Sprintf("key %d", i), strings.Repeat("x", 100))
	}
	if err := compaction.Of(s).Compact(context.Background(), nil); err != nil || compaction.Of(s).Garbage() > before/20 {
		t.Errorf("afterwards: %v, %d bytes of garbage", err, compaction.Of(s).Garbage())
	}
	storetest.Close(t, s)
}
