package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/vfs"
)

// windowed opens a store with a window, by a clock.
func windowed(t *testing.T, mem *vfs.Mem, clock *kit.ManualClock, opts ...copal.Option) *copal.DB {
	return kit.OpenOn(t, mem, append([]copal.Option{kit.WithInline(), kit.WithClock(clock), kit.WithSegmentBytes(1000)}, opts...)...)
}

// TestAsOfErrors asks for moments that are not to be had.
func TestAsOfErrors(t *testing.T) {
	clock, mem := kit.NewManualClock(), vfs.NewMem()
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
	kit.MustClose(t, db)
	if _, err := s.Raw().Load([]byte("key")); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("a snapshot of the past, after Close: %v", err)
	}
	if _, err := db.AsOfSeq(1); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := kit.TryOpen(t, mem, copal.WithHistory(-1)); err == nil {
		t.Error("a window of less than nothing")
	}
	if _, err := kit.TryOpen(t, mem, copal.WithHistoryBytes(-1)); err == nil {
		t.Error("a window of less than no bytes")
	}
}

// TestWindowMoves: moments older than the window go, and no younger ones; also when the process
// that compacts has not asked for a window.
func TestWindowMoves(t *testing.T) {
	clock, mem := kit.NewManualClock(), vfs.NewMem()
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
	kit.MustClose(t, db)
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
	kit.MustClose(t, db)
}

// TestWindowOfBytes: moments that the bytes of the window follow go, and no later ones; also when
// the process that compacts has not asked for a window. Of two bounds the one counts that is
// reached first.
func TestWindowOfBytes(t *testing.T) {
	const day = 24 * time.Hour
	for name, x := range map[string]struct {
		opts        []copal.Option
		least, most int64 // bytes that are left after the beginning of the window, of about 50,000
	}{
		"alone":             {[]copal.Option{copal.WithHistoryBytes(5000)}, 5000, 6200},
		"a shorter one":     {[]copal.Option{copal.WithHistoryBytes(1)}, 1, 1500},
		"not reached":       {[]copal.Option{copal.WithHistoryBytes(1 << 20)}, 45_000, 55_000},
		"before the time":   {[]copal.Option{copal.WithHistory(day), copal.WithHistoryBytes(5000)}, 5000, 6200},
		"with Forever":      {[]copal.Option{copal.WithHistoryBytes(5000), copal.WithHistory(copal.Forever)}, 5000, 6200},
		"behind the time":   {[]copal.Option{copal.WithHistory(100 * time.Millisecond), copal.WithHistoryBytes(20_000)}, 12_000, 15_000},
		"none by the bytes": {[]copal.Option{copal.WithHistory(day), copal.WithHistoryBytes(0)}, 1, 1500},
		"none by the time":  {[]copal.Option{copal.WithHistory(0), copal.WithHistoryBytes(5000)}, 1, 1500},
		"another's":         {[]copal.Option{copal.WithHistory(day)}, 45_000, 55_000},
	} {
		t.Run(name, func(t *testing.T) {
			clock, mem := kit.NewManualClock(), vfs.NewMem()
			write := func(db *copal.DB) {
				for i := range 200 {
					clock.Advance(time.Millisecond)
					if err := db.Raw().Set([]byte("key"), fmt.Append(nil, i, strings.Repeat("x", 80))); err != nil {
						t.Fatal(err)
					}
				}
			}
			db := windowed(t, mem, clock, copal.WithHistoryBytes(700)) // the later option replaces it
			kit.MustSet(t, kit.MapOf[string, int](t, db, "m"), "a", 1)
			kit.MustClose(t, db)
			db = windowed(t, mem, clock, x.opts...)
			write(db)
			kit.MustClose(t, db)
			db = windowed(t, mem, clock)
			write(db)
			if err := db.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			if n := windowBytes(db); n < x.least || n > x.most {
				t.Errorf("%d bytes are left, and should be from %d to %d", n, x.least, x.most)
			}
			kit.MustClose(t, db)
		})
	}
}

// windowBytes returns the number of bytes from the beginning of the window to the end of the log,
// all of them without a window.
func windowBytes(db *copal.DB) (n int64) {
	log := opened.Engine(db).Log()
	from, _ := log.HistoryFrom()
	for _, seg := range log.Segments() {
		if seg.Last == 0 || seg.Last > from {
			n += seg.End.Load()
		}
	}
	return n
}

// TestAsOfBesideWriter: a read-only store sees the past of one that another process writes.
func TestAsOfBesideWriter(t *testing.T) {
	clock, mem := kit.NewManualClock(), vfs.NewMem()
	db := windowed(t, mem, clock)
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "a", 1)
	reader := windowed(t, mem, clock, copal.ReadOnly())
	kit.MustSet(t, m, "a", 2)
	kit.MustSet(t, m, "b", 3)
	s, err := reader.AsOfSeq(4)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	there := kit.MapOf[string, int](t, reader, "m").At(s)
	if v, _ := there.Get("a"); v != 2 || there.Len() != 1 {
		t.Errorf("a is %d, of %d", v, there.Len())
	}
}

// TestHistoryOfAGroup: a transaction makes one version of an entry, the last, however often its
// records name the key and wherever they are in the log.
func TestHistoryOfAGroup(t *testing.T) {
	for name, change := range map[string]func(m *copal.Map[string, string]) error{
		"alone":      func(m *copal.Map[string, string]) error { return m.Set("a", "new") },
		"set twice":  func(m *copal.Map[string, string]) error { return errors.Join(m.Set("a", "first"), m.Set("a", "new")) },
		"behind one": func(m *copal.Map[string, string]) error { return errors.Join(m.DeletePrefix("a"), m.Set("a", "new")) },
		"behind two": func(m *copal.Map[string, string]) error {
			return errors.Join(m.DeletePrefix("a"), m.Clear(), m.Set("a", "new"))
		},
		"before one": func(m *copal.Map[string, string]) error { return errors.Join(m.Set("a", "new"), m.DeletePrefix("b")) },
	} {
		mem := vfs.NewMem()
		db := windowed(t, mem, kit.NewManualClock(), copal.WithHistory(copal.Forever))
		m := kit.MapOf[string, string](t, db, "m")
		kit.MustSet(t, m, "a", "old")
		if err := db.Update(func(tx *copal.Tx) error { return errors.Join(m.In(tx).Set("other", ""), change(m.In(tx))) }); err != nil {
			t.Fatal(err)
		}
		kit.MustSet(t, m, "a", "newest")
		for range 2 {
			var versions []string
			for v, err := range m.History("a") {
				if versions = append(versions, v.Value); err != nil || v.Deleted {
					t.Errorf("%s: version %q of record %d, deleted %v, %v", name, v.Value, v.Seq, v.Deleted, err)
				}
			}
			if want := []string{"newest", "new", "old"}; !slices.Equal(versions, want) {
				t.Errorf("%s: %q, want %q", name, versions, want)
			}
			kit.MustClose(t, db)
			db = windowed(t, mem, kit.NewManualClock())
			m = kit.MapOf[string, string](t, db, "m")
		}
		kit.MustClose(t, db)
	}
}
