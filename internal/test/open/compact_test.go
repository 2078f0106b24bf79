package open

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// overwritten returns a store in which each of n keys was written times over, and every fifth
// deleted.
func overwritten(t *testing.T, fsys vfs.FS, n, times int, opts ...copal.Option) (*copal.DB, *copal.Map[int, string]) {
	t.Helper()
	db := kit.OpenOn(t, fsys, opts...)
	return db, overwrite(t, db, n, times)
}

// overwrite fills the store of overwritten.
func overwrite(t *testing.T, db *copal.DB, n, times int) *copal.Map[int, string] {
	t.Helper()
	m := kit.MapOf[int, string](t, db, "m")
	for time := range times {
		for i := range n {
			if err := m.Set(i, fmt.Sprint(time, strings.Repeat("v", 100))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := 0; i < n; i += 5 {
		if _, err := m.Delete(i); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// wantOverwritten checks every key of overwritten.
func wantOverwritten(t *testing.T, m *copal.Map[int, string], n, times int) {
	t.Helper()
	want := fmt.Sprint(times-1, strings.Repeat("v", 100))
	for i := range n {
		if got, ok := m.Get(i); ok != (i%5 != 0) || ok && got != want {
			t.Fatalf("key %d: %.20q, %v", i, got, ok)
		}
	}
	if m.Len() != n-(n+4)/5 {
		t.Errorf("%d keys", m.Len())
	}
}

// After Compact there is a record for each entry, one for the map and one for its type, also when
// the store is opened again; and deleted entries stay away.
func TestCompact(t *testing.T) {
	fsys := vfs.NewMem()
	db, m := overwritten(t, fsys, 1000, 5, kit.WithSegmentBytes(20_000), kit.WithNoCompaction())
	before := db.Stats()
	if err := db.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		wantOverwritten(t, m, 1000, 5)
		if s := db.Stats(); s.Records != 802 || s.LogBytes > s.LiveBytes+1000 {
			t.Errorf("after Compact: %+v", s)
		}
	}
	check()
	if s := db.Stats(); before.Records != 5202 || s.LogBytes*4 > before.LogBytes || s.Compacted == 0 {
		t.Errorf("Compact has made of %+v: %+v", before, s)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(context.Background(), nil); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("Compact after Close: %v", err)
	}
	db = kit.OpenOn(t, fsys)
	m, _ = copal.OpenMap[int, string](db, "m")
	check()
	if err := db.Compact(context.Background(), nil); err != nil { // also of a store that was not written to
		t.Fatal(err)
	}
	check()
}

// Compaction by itself keeps a store below three times its live records.
func TestCompactionByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		db, m := overwritten(t, fsys, 1000, 20, kit.WithSegmentBytes(20_000))
		time.Sleep(time.Minute)
		if s := db.Stats(); s.LogBytes > 3*s.LiveBytes+40_000 || s.Compacted == 0 {
			t.Errorf("%+v", s)
		}
		wantOverwritten(t, m, 1000, 20)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestHistoryForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := overwritten(t, vfs.NewMem(), 1000, 20, kit.WithSegmentBytes(20_000), copal.WithHistory(copal.Forever))
		time.Sleep(time.Minute)
		if err := db.Compact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if s := db.Stats(); s.Records != 20_202 || s.Compacted != 0 {
			t.Errorf("%+v", s)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Compaction by itself concerns small stores, too: of one segment, the tail.
func TestAutoCompact(t *testing.T) {
	for _, bad := range []copal.Option{
		copal.WithAutoCompact(time.Hour, -1), copal.WithAutoCompact(time.Hour, 0), copal.WithAutoCompact(time.Hour, 0.5),
		copal.WithAutoCompact(time.Hour, math.NaN()), copal.WithAutoCompact(0, 2), copal.WithAutoCompact(-1, 2),
	} {
		if db, err := copal.OpenMemory(bad); err == nil || !strings.HasPrefix(err.Error(), "copal: ") {
			t.Errorf("%v, %v", db, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		db := kit.OpenOn(t, fsys, copal.WithAutoCompact(time.Hour, 2))
		synctest.Wait() // until the look at the opening is over
		m := overwrite(t, db, 1000, 5)
		time.Sleep(59 * time.Minute)
		if s := db.Stats(); s.Ratio() < 5 {
			t.Errorf("before its time: %+v", s)
		}
		time.Sleep(10 * time.Minute)
		if s := db.Stats(); s.Ratio() > 2 {
			t.Errorf("with a ratio of %v: %+v", s.Ratio(), s)
		}
		wantOverwritten(t, m, 1000, 5)
		kit.MustClose(t, db)
		db = kit.OpenOn(t, fsys, copal.ReadOnly(), copal.WithAutoCompact(time.Hour, 1))
		time.Sleep(2 * time.Hour)
		kit.MustClose(t, db)
	})
}
