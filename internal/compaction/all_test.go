package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestCompactAllGoesOnBehindDamage: Compact reports a damaged segment and leaves it, and the later
// segments give back their space.
func TestCompactAllGoesOnBehindDamage(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 2000 })
	storetest.Set(t, s, "bad", "to be damaged")
	for i := range 400 {
		storetest.Set(t, s, fmt.Sprint(i%10), strings.Repeat("x", 20))
	}
	logtest.DamageIn(t, mem, s.Log().Readable()[0].Path, "to be damaged")
	for range 2 {
		if err := compaction.Of(s).Compact(context.Background(), nil); !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("Compact says %v", err)
		}
		if u := compaction.Of(s).Usage(); u.Log > 3*2000 {
			t.Errorf("%d bytes are left, in %d segments", u.Log, len(s.Log().Readable()))
		}
	}
	storetest.Close(t, s)
}

// TestCompactAllAfterHousekeepingHadNoRoom: Compact gives back all space, also where housekeeping
// has given up for want of room.
func TestCompactAllAfterHousekeepingHadNoRoom(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 2000 })
	for i := range 100 {
		storetest.Set(t, s, fmt.Sprintf("stays %d", i), "x")
		for range 4 {
			storetest.Set(t, s, fmt.Sprint("key ", i%10), strings.Repeat("x", 20))
		}
	}
	for compaction.Of(s).TidyOnce(func() error { return seglog.ErrNoSpace }) {
	}
	for range 50 {
		compaction.Of(s).TidyOnce(func() error { return seglog.ErrNoSpace })
	}
	if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if u := compaction.Of(s).Usage(); u.Garbage() > 500 {
		t.Errorf("%d bytes of %d are of no use after Compact", u.Garbage(), u.Log)
	}
	storetest.Close(t, s)
}

// TestCompactOfACutTail: Compact says that the tail of a live store was cut, where everything was durable, and
// so does Close.
func TestCompactOfACutTail(t *testing.T) { logtest.BothWays(t, compactOfACutTail) }

func compactOfACutTail(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"heap": vfs.NewMem(), "disk": vfs.OS()} {
		dir := filepath.Join(t.TempDir(), "db")
		s, err := store.Open(dir, engine.Options{FS: fsys, Inline: true, SegmentBytes: 100_000, OnError: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			storetest.Set(t, s, "key", strings.Repeat("v", 3000))
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Open(filepath.Join(dir, "00000001.log"), vfs.ReadWrite)
		if err == nil {
			err = errors.Join(f.Truncate(20_000), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := compaction.Of(s).Compact(context.Background(), nil); !errors.Is(err, seglog.ErrReadOnly) {
			t.Errorf("%s, Compact: %v", name, err)
		}
		var failed *seglog.FailedError
		if err := s.Close(); !errors.As(err, &failed) || !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("%s, Close: %v", name, err)
		}
	}
}
