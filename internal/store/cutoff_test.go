package store

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Somebody has cut the tail of a live store, where everything was durable: to give back the room behind it would fill in zeros, and nobody would
// know. So whatever ends a tail looks first, and says that what was durable is not any more.
func TestTailCutBeforeItEnds(t *testing.T) { bothWays(t, tailCutBeforeItEnds) }

func tailCutBeforeItEnds(t *testing.T) {
	value := strings.Repeat("v", 3000)
	for name, fsys := range map[string]vfs.FS{"heap": vfs.NewMem(), "disk": vfs.OS()} {
		for how, end := range map[string]func(s *Store) error{
			"Close":   func(s *Store) error { return nil },
			"Compact": func(s *Store) error { return s.Compact(context.Background(), nil) },
			"rolling": func(s *Store) (err error) {
				for i := 0; i < 40 && err == nil; i++ {
					err = s.Set(nil, []byte("more"), []byte(value), 0, Process)
				}
				return err
			},
		} {
			dir := filepath.Join(t.TempDir(), "db")
			s, err := Open(dir, Options{FS: fsys, Inline: true, SegmentBytes: 100_000, OnError: func(error) {}})
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				mustSet(t, s, "key", value)
			}
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			f, err := fsys.Open(s.log.tail.path, vfs.ReadWrite)
			if err == nil {
				err = errors.Join(f.Truncate(20_000), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			if how == "rolling" && s.log.ring == nil {
				s.Close() // the next append is a write behind the cut, which fills it in: to look before each costs more than the write
				continue
			}
			if err := end(s); how != "Close" && !errors.Is(err, seglog.ErrReadOnly) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
			var failed *seglog.FailedError
			if err := s.Close(); !errors.As(err, &failed) || !errors.Is(err, seglog.ErrCorrupt) {
				t.Errorf("%s, %s, Close: %v", name, how, err)
			}
		}
	}
}
