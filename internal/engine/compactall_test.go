package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestCompactAllGoesOnBehindDamage: Compact reports a damaged segment and leaves it, and the
// segments behind it give back their space.
func TestCompactAllGoesOnBehindDamage(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 2000 })
	mustSet(t, s, "bad", "to be damaged")
	for i := range 400 {
		mustSet(t, s, fmt.Sprint(i%10), strings.Repeat("x", 20))
	}
	logtest.DamageIn(t, mem, s.log.Readable()[0].Path, "to be damaged")
	for range 2 {
		if err := s.Compact(context.Background(), nil); !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("Compact says %v", err)
		}
		if u := s.usage(); u.log > 3*2000 {
			t.Errorf("%d bytes are left, in %d segments", u.log, len(s.log.Readable()))
		}
	}
	mustClose(t, s)
}

// TestCompactAllAfterHousekeepingHadNoRoom: Compact gives back all space, also where housekeeping
// has given up for want of room.
func TestCompactAllAfterHousekeepingHadNoRoom(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 2000 })
	for i := range 100 {
		mustSet(t, s, fmt.Sprintf("stays %d", i), "x")
		for range 4 {
			mustSet(t, s, fmt.Sprint("key ", i%10), strings.Repeat("x", 20))
		}
	}
	for s.tidyOnce(func() error { return seglog.ErrNoSpace }) {
	}
	for range 50 {
		s.tidyOnce(func() error { return seglog.ErrNoSpace })
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if u := s.usage(); u.garbage() > 500 {
		t.Errorf("%d bytes of %d are of no use after Compact", u.garbage(), u.log)
	}
	mustClose(t, s)
}

// TestCompactOfACutTail: Compact says that the tail of a live store was cut, where everything was durable, and so does Close.
func TestCompactOfACutTail(t *testing.T) { logtest.BothWays(t, compactOfACutTail) }

func compactOfACutTail(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"heap": vfs.NewMem(), "disk": vfs.OS()} {
		dir := filepath.Join(t.TempDir(), "db")
		s, err := Open(dir, Options{FS: fsys, Inline: true, SegmentBytes: 100_000, OnError: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			mustSet(t, s, "key", strings.Repeat("v", 3000))
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
		if err := s.Compact(context.Background(), nil); !errors.Is(err, seglog.ErrReadOnly) {
			t.Errorf("%s, Compact: %v", name, err)
		}
		var failed *seglog.FailedError
		if err := s.Close(); !errors.As(err, &failed) || !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("%s, Close: %v", name, err)
		}
	}
}
