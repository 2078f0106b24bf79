package copal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// windowed is a store with a window, and its clock.
func windowed(t *testing.T, mem *vfs.Mem, clock *manualClock, opts ...copal.Option) *copal.DB {
	return openOn(t, mem, append([]copal.Option{copal.WithInline(), copal.WithClock(clock), copal.WithSegmentBytes(1000)}, opts...)...)
}

// TestAsOfErrors asks for moments that are not to be had.
func TestAsOfErrors(t *testing.T) {
	clock, mem := newManualClock(), vfs.NewMem()
	db := windowed(t, mem, clock)
	raw := db.Raw()
	start := clock.Now()
	for i := range 100 {
		clock.Advance(time.Millisecond)
		if err := raw.Set([]byte("key"), fmt.Append(nil, i, strings.Repeat("x", 50))); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := db.AsOf(start.Add(50 * time.Millisecond)); err != nil {
		t.Errorf("of a log that was never compacted: %v", err)
	} else if v, _ := s.Raw().Get([]byte("key")); !strings.HasPrefix(string(v), "49x") || s.Close() != nil {
		t.Errorf("after 50 ms: %.5q", v)
	} else if _, err := s.Raw().Load([]byte("key")); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("a snapshot that is closed: %v", err)
	}
	if _, err := db.AsOf(clock.Now().Add(time.Millisecond)); err == nil || errors.Is(err, copal.ErrHistoryLost) {
		t.Errorf("of the future: %v", err)
	}
	if _, err := db.AsOfSeq(101); err == nil || errors.Is(err, copal.ErrHistoryLost) {
		t.Errorf("of a number to come: %v", err)
	}
	s, err := db.AsOfSeq(0)
	if err != nil || s.Raw().Len() != 0 {
		t.Errorf("of nothing: %v", err)
	}
	if err := db.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.AsOf(clock.Now()); !errors.Is(err, copal.ErrHistoryLost) {
		t.Errorf("of a log that was compacted: %v", err)
	}
	mustClose(t, db)
	if _, err := s.Raw().Load([]byte("key")); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("a snapshot of the past, after Close: %v", err)
	}
	if _, err := db.AsOfSeq(1); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := tryOpen(t, mem, copal.WithHistory(-1)); err == nil {
		t.Error("a window of less than nothing")
	}
}

// TestWindowMoves: what is older than the window goes, and nothing that is younger; also when the process that
// compacts has not asked for a window.
func TestWindowMoves(t *testing.T) {
	clock, mem := newManualClock(), vfs.NewMem()
	db := windowed(t, mem, clock, copal.WithHistory(100*time.Millisecond))
	write := func() {
		for i := range 200 {
			clock.Advance(time.Millisecond)
			if err := db.Raw().Set([]byte("key"), fmt.Append(nil, clock.Now().UnixMilli(), strings.Repeat("x", 50))); err != nil {
				t.Fatal(i, err)
			}
		}
	}
	write()
	mustClose(t, db)
	db = windowed(t, mem, clock)
	write()
	if err := db.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	st := db.Stats()
	if st.Records < 100 || st.Records > 130 {
		t.Errorf("%d records are left of 400, of which 100 are in the window", st.Records)
	}
	for _, ago := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond} {
		s, err := db.AsOf(clock.Now().Add(-ago))
		if err != nil {
			t.Fatalf("%v ago: %v", ago, err)
		}
		want := fmt.Sprint(clock.Now().Add(-ago).UnixMilli())
		if v, _ := s.Raw().Get([]byte("key")); !strings.HasPrefix(string(v), want+"x") {
			t.Errorf("%v ago: %.20q, want %s", ago, v, want)
		}
		s.Close()
	}
	if _, err := db.AsOf(clock.Now().Add(-200 * time.Millisecond)); !errors.Is(err, copal.ErrHistoryLost) {
		t.Errorf("200 ms ago: %v", err)
	}
	first := uint64(0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for c, err := range db.Watch(ctx, copal.WithAfter(300)) {
		if first = c.Seq; err != nil {
			t.Fatal(err)
		}
		break
	}
	if first != 301 {
		t.Errorf("a watch from record 300 on begins with %d", first)
	}
	mustClose(t, db)
}

// TestAsOfBesideWriter: a read-only store sees the past of one that another process writes.
func TestAsOfBesideWriter(t *testing.T) {
	clock, mem := newManualClock(), vfs.NewMem()
	db := windowed(t, mem, clock)
	m := mapOf[string, int](t, db, "m")
	mustSet(t, m, "a", 1)
	reader := windowed(t, mem, clock, copal.ReadOnly())
	mustSet(t, m, "a", 2)
	mustSet(t, m, "b", 3)
	s, err := reader.AsOfSeq(4)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	there := mapOf[string, int](t, reader, "m").At(s)
	if v, _ := there.Get("a"); v != 2 || there.Len() != 1 {
		t.Errorf("a is %d, of %d", v, there.Len())
	}
}
