package copal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/vfs"
)

// DB is an open store: a directory with a log, and the maps that are kept in it.
// It is safe for concurrent use.
type DB struct {
	store  *engine.Store
	driver driver.Driver // in its place; nil for the engine
	config config

	renderers sync.Map // schema number → codec.Renderer, or false for none
	raw       raw

	mu     sync.Mutex              // guards maps and values
	maps   map[string]any          // by name: the *Map[K, V] that is open
	values map[reflect.Type]*typed // of Load and Set, by the type they are called with
}

// Open opens the store in directory dir, which is created when it is missing.
//
// One process at a time may write; for the others, and for a second Open in the same
// process, the error is ErrLocked, at once. See ReadOnly for reading beside it.
//
// Opening finds every write that was acknowledged, as far as its durability
// promised: see docs/durability.md for what a crash can leave. Where a part of the log is
// damaged that has to be read, the store opens with ReadOnly alone. The error handler is
// told of each place then, a read of a key whose newest record is damaged is an error, and
// every other key reads as ever; a damaged record that does not say any more whose it was
// leaves its key as it was before. A writer, and a store of which files are missing or cut
// short, is refused with a *CorruptError. Damage elsewhere is the error of the call that
// meets it. admin.Check reads everything, and admin.Repair saves what is intact.
func Open(dir string, opts ...Option) (*DB, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, errors.New("copal: Open needs the name of a directory")
	}
	// The store stays where it is when the program changes its working directory.
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("copal: %w", err)
	}
	return open(dir, c)
}

// OpenMemory opens an empty store that is kept in memory and gone after Close. It
// behaves as one on disk does, for tests of code that uses copal.
func OpenMemory(opts ...Option) (*DB, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if c.readOnly {
		return nil, fmt.Errorf("%w: there is nothing to read in a new store in memory", ErrReadOnly)
	}
	c.fsys, c.backupTo = vfs.NewMem(), vfs.OS()
	return open("memory", c)
}

func open(dir string, c config) (*DB, error) {
	s, err := store.Open(dir, engine.Options{
		FS: c.fsys, Clock: c.clock, Random: c.random, ReadOnly: c.readOnly, FollowEvery: c.followEvery,
		SyncInterval: c.syncInterval, MaxMemory: c.maxMemory, SegmentBytes: c.segmentBytes, RingBytes: c.ringBytes, OnError: c.onError, Progress: c.progress, Inline: c.inline, NoCompaction: c.noCompaction,
	})
	if err != nil {
		return nil, err
	}
	if c.orderedKeys {
		if err := s.Order(s.RawTable(), keycodec.BytesOrder); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return newDB(s, c), nil
}

func newDB(s *engine.Store, c config) *DB {
	return &DB{store: s, config: c, maps: map[string]any{}, values: map[reflect.Type]*typed{}}
}

// Close makes everything written durable and closes the store and its maps. Its
// error says that something may not be on the disk. Calls after the first return nil.
func (db *DB) Close() error {
	if db.driver != nil {
		return db.driver.Close()
	}
	return db.store.Close()
}

// Sync returns when everything written before the call, by any goroutine, is on
// the disk. Its error says that this cannot be relied on; no later write succeeds then.
func (db *DB) Sync() error {
	if db.driver != nil {
		return db.driver.Sync(context.Background())
	}
	return db.store.Sync()
}

// SetSyncInterval changes the interval for writes from now on, and for those that
// wait. A d that is not positive changes nothing.
func (db *DB) SetSyncInterval(d time.Duration) {
	if d > 0 {
		db.store.SetSyncInterval(d)
	}
}

// Stats is what Stats counts.
type Stats struct {
	Keys          int64 // entries, of maps as their Len counts them, and raw
	Records       int64 // records in the log; those of overwritten and deleted entries among them
	LiveBytes     int64 // of the log that belong to entries, about
	LogBytes      int64 // of all segments
	Segments      int   // files of the log
	CacheBytes    int64 // memory of decoded values
	IndexBytes    int64 // memory of the index
	Snapshots     int64 // that are open, and transactions under way
	SnapshotBytes int64 // memory of what is kept for them
	HeldBytes     int64 // of files out of use that only they, watchers, or reads and backups under way need; not in LogBytes
	Compacted     int64 // files of the log that compaction has replaced since the store was opened
	SyncInterval  time.Duration
	TornBytes     int64 // at the end of the log that did not count when the store was opened, see docs/durability.md
}

// Ratio is the number of records for each entry: 1 in a store without waste.
func (s Stats) Ratio() float64 { return float64(s.Records) / float64(max(s.Keys, 1)) }

// Stats counts what the store holds. It is quick, and exact when nobody writes.
func (db *DB) Stats() Stats {
	s := db.store.Stats()
	return Stats{Keys: s.Keys, Records: s.Records, LiveBytes: s.LiveBytes, LogBytes: s.LogBytes,
		Segments: s.Segments, Compacted: s.Compacted, IndexBytes: s.IndexBytes, CacheBytes: s.CacheBytes, TornBytes: s.TornBytes, SyncInterval: db.store.SyncInterval(),
		Snapshots: s.Views, SnapshotBytes: s.ViewBytes, HeldBytes: s.HeldBytes}
}

// Maps yields the names of the maps that were ever written to, or are open, in their order, and the
// number of entries of each. Entries that belong to none of them are raw keys and single values.
func (db *DB) Maps() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		keys := map[string]int{}
		for _, m := range db.store.Maps() {
			name, err := keycodec.ParseName([]byte(m.Name))
			if err != nil {
				name = m.Name // of a declaration that was not made here
			}
			keys[name] = m.Keys
		}
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			if !yield(name, keys[name]) {
				return
			}
		}
	}
}

// MapPrefix is what the raw keys of the entries of map name begin with: the name, in which some bytes are
// escaped, and a colon. So raw.Prefix(MapPrefix("users")) yields the map's entries, and
// append(MapPrefix("users"), "alice"...) is the key of one whose own is a string.
func MapPrefix(name string) []byte { return append(keycodec.AppendName(nil, name), ':') }

// MaxKeyBytes is the length of the longest key, what stands for the map's name included.
const MaxKeyBytes = engine.MaxKeyBytes

// report passes on an error that the current call cannot return.
func (db *DB) report(err error) {
	if err != nil {
		db.config.onError(err)
	}
}

// typeError makes errors.Is(err, ErrType) true. What does not fit is what err says of the named thing.
func typeError(err error, format string, args ...any) error {
	return &misfit{fmt.Sprintf(format, args...), err}
}

type misfit struct {
	what string
	err  error
}

func (e *misfit) Error() string {
	return "copal: " + e.what + ": " + strings.TrimPrefix(e.err.Error(), "copal: ")
}

func (e *misfit) Unwrap() []error { return []error{ErrType, e.err} }

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }
