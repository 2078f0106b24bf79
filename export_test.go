package copal

import (
	"context"
	"reflect"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/vfs"
)

// The seams as options, so that the tests of the package can stand outside it.

func WithFS(fsys vfs.FS) Option         { return storeOption(func(c *config) { c.fsys = fsys }) }
func WithClock(k clock.Clock) Option    { return storeOption(func(c *config) { c.clock = k }) }
func WithRandom(f func() uint64) Option { return storeOption(func(c *config) { c.random = f }) }
func WithSegmentBytes(n int64) Option   { return storeOption(func(c *config) { c.segmentBytes = n }) }
func WithoutRing() Option               { return storeOption(func(c *config) { c.ringBytes = -1 }) }
func WithRingBytes(n int64) Option      { return storeOption(func(c *config) { c.ringBytes = n }) }
func WithLogPerIndex(n int64) Option    { return storeOption(func(c *config) { c.logPerIndex = n }) }
func WithNoCompaction() Option          { return storeOption(func(c *config) { c.noCompaction = true }) }
func WithInline() Option                { return storeOption(func(c *config) { c.inline = true }) }

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

// IsOrdered reports whether the map's keys are kept in order.
func (m *Map[K, V]) IsOrdered() bool { return m.bare.isOrdered() }

// AnyMap is a map of string keys whose type of values is known at run time alone: what OpenMap does to let
// values of one type be read as those of another, without a Map for each of a hundred types.
type AnyMap struct {
	name   string
	values *typed
	table  *engine.Table
}

// OpenAnyMap is OpenMap under the codec that the store was opened with.
func OpenAnyMap(db *DB, name string, t reflect.Type) (*AnyMap, error) {
	values, table, err := db.valuesOf(name, db.config.maps.codec, t)
	return &AnyMap{name, values, table}, err
}

func (m *AnyMap) key(key string) []byte { return []byte(m.name + ":" + key) }

// Set stores what is of the map's type.
func (m *AnyMap) Set(key string, v any) error {
	p := reflect.New(m.values.goval)
	p.Elem().Set(reflect.ValueOf(v))
	value, schema, err := m.values.encode(new(buffer), m.key(key), p.Interface())
	if err != nil {
		return err
	}
	return m.values.store.(*engine.Store).Set(m.table, m.key(key), value, schema, engine.Process)
}

// Load returns a value of the map's type.
func (m *AnyMap) Load(key string) (any, error) {
	e, err := m.values.store.(*engine.Store).Get(m.table, m.key(key))
	if err != nil {
		return nil, err
	}
	p := reflect.New(m.values.goval)
	err = m.values.decode(m.key(key), &e, p.Interface())
	return p.Elem().Interface(), err
}
