package kit

import (
	"context"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/vfs"
)

// Options of the engine that programs cannot set.

func WithFS(fsys vfs.FS) copal.Option         { return seam(func(o *engine.Options) { o.FS = fsys }) }
func WithClock(k clock.Clock) copal.Option    { return seam(func(o *engine.Options) { o.Clock = k }) }
func WithRandom(f func() uint64) copal.Option { return seam(func(o *engine.Options) { o.Random = f }) }
func WithSegmentBytes(n int64) copal.Option {
	return seam(func(o *engine.Options) { o.SegmentBytes = n })
}
func WithoutRing() copal.Option          { return WithRingBytes(-1) }
func WithRingBytes(n int64) copal.Option { return seam(func(o *engine.Options) { o.RingBytes = n }) }
func WithLogPerIndex(n int64) copal.Option {
	return seam(func(o *engine.Options) { o.LogPerIndex = n })
}
func WithNoCompaction() copal.Option { return seam(func(o *engine.Options) { o.NoCompaction = true }) }
func WithInline() copal.Option       { return seam(func(o *engine.Options) { o.Inline = true }) }

func seam(set func(*engine.Options)) copal.Option { return opened.Seam(set).(copal.Option) }

// CheckFS is admin.Check on any file system.
func CheckFS(dir string, fsys vfs.FS) (repair.CheckReport, error) {
	return CheckWith(context.Background(), dir, fsys, nil)
}

// CheckWith is admin.Check on any file system.
func CheckWith(ctx context.Context, dir string, fsys vfs.FS, progress func(done, total int64)) (repair.CheckReport, error) {
	r, err := engine.Check(ctx, dir, fsys, progress)
	switch {
	case err != nil:
		return r, err
	case r.Version != nil:
		return r, r.Version
	case len(r.Problems) > 0:
		return r, &r.Problems[0]
	}
	return r, nil
}

// IsOrdered reports whether the keys of a map are kept in order because the program asked for it.
func IsOrdered[K comparable, V any](m *copal.Map[K, V]) bool {
	s := opened.Engine(m.DB())
	t, err := s.Map(m.Name())
	keys, errKeys := keycodec.For[K]()
	return err == nil && errKeys == nil && s.KeepsOrder(t, keys.Order())
}
