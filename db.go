package copal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/render"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/vfs"
)

// DB is an open store: a directory with a log, and the maps kept in it. It is safe for concurrent
// use.
type DB struct {
	store  *engine.Store
	driver closer // in its place, a driver.Driver, which programs that only open a store do not carry; nil for the engine
	config config

	renders render.Renderers
	raw     raw

	mu     sync.Mutex              // guards watches, maps and values
	maps   map[string]*mapCore     // by name: those that are open
	values map[reflect.Type]*typed // of Load and Set, by the type they are called with

	lead    chan struct{} // of the hub, and of Open's synctest bubble, not of the first watch's
	watches any           // a *feed.Hub, which the first watch makes: programs without watches do not carry its type
}

type closer interface{ Close() error }

// Open opens the store in directory dir, and creates the directory when it is missing. The name is
// resolved once, as the system resolves it, "..", too. So the store stays where it is when the
// program changes its working directory, or when a symbolic link on the way gets another target.
//
// One process at a time may write. Another process, and a second Open in the same process, gets
// ErrLocked at once. A store opened with ReadOnly reads while another process writes.
//
// Opening finds every acknowledged write, as far as its durability promised; docs/durability.md
// lists the states that a crash can leave.
//
// A copy of the files of a store that was not closed may lack acknowledged writes. Open returns
// ErrCopied for one, unless AcceptCopy is given.
//
// If a part of the log that opening must read is damaged, a writer is refused with a *CorruptError,
// and only ReadOnly opens the store. Then the error handler gets each damaged place, and a read of
// a key whose newest record is damaged is an error. Every other key reads as ever. If the key of a
// damaged record cannot be read, that key keeps the value it had before. A store with missing or
// shortened files is refused altogether. Damage elsewhere is the error of the call that meets it.
// admin.Check reads everything, and admin.Repair saves the intact entries.
func Open(dir string, opts ...Option) (*DB, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, errors.New("copal: Open needs the name of a directory")
	}
	if dir, err = files.Path(dir); err != nil {
		return nil, fmt.Errorf("copal: %w", err)
	}
	return open(dir, c)
}

// OpenMemory opens an empty store that is kept in memory and gone after Close. It behaves as one on
// disk does, and is for tests of code that uses copal.
func OpenMemory(opts ...Option) (*DB, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if c.readOnly {
		return nil, fmt.Errorf("%w: there is nothing to read in a new store in memory", ErrReadOnly)
	}
	c.fsys, c.backupTo = vfs.NewMem(), c.disk()
	return open("memory", c)
}

func open(dir string, c config) (*DB, error) {
	window, windowBytes := c.window()
	s, err := engine.Open(dir, store.Writing(c.engine(engine.Options{
		FS: c.fsys, ReadOnly: c.readOnly, Follower: c.follower, Passing: c.passing, FollowEvery: c.followEvery,
		SyncInterval: c.syncInterval, MaxMemory: c.maxMemory, OnError: c.onError, Progress: c.progress,
		Window: window, WindowBytes: windowBytes, CompactEvery: c.compactEvery, TooMany: c.tooMany,
		ExpiryEvents: c.maps.expiry, AcceptCopy: c.acceptCopy,
	})))
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
	return &DB{store: s, config: c, renders: render.Renderers{Store: s, Own: c.maps.codec}, maps: map[string]*mapCore{}, values: map[reflect.Type]*typed{}, lead: make(chan struct{}, 1)}
}

// Close makes every write durable, and closes the store and its maps. An error means that some
// write may not be on the disk. Calls after the first return nil.
func (db *DB) Close() error {
	if db.driver != nil {
		return db.driver.Close()
	}
	return db.store.Close()
}

// Sync returns when everything written before the call, by any goroutine, is on the disk. An error
// means that this cannot be relied on; no later write succeeds then.
func (db *DB) Sync() error {
	if db.driver != nil {
		return db.drives().Sync(context.Background())
	}
	return db.store.Sync()
}

// Stats are counts and sizes of a store, from DB.Stats.
type Stats struct {
	Keys          int64 // entries of all maps, as their Len counts them, and raw entries
	Records       int64 // records in the log, with those of overwritten and deleted entries
	LiveBytes     int64 // bytes of the log that belong to entries, estimated
	LogBytes      int64 // bytes of all segments
	Segments      int   // files of the log
	CacheBytes    int64 // memory of decoded values
	IndexBytes    int64 // memory of the index
	Snapshots     int64 // open snapshots and running transactions
	SnapshotBytes int64 // memory kept for Snapshots
	HeldBytes     int64 // bytes of replaced files that a snapshot, watcher, read or backup still needs; not in LogBytes
	Compacted     int64 // files of the log that compaction has replaced since the store was opened
	SyncInterval  time.Duration
	TornBytes     int64         // bytes that opening ignored at the end of the log, see docs/durability.md
	ClockBehind   time.Duration // by how much the clock is earlier than the newest record, which was written while the clock was ahead; else 0
}

// Ratio returns the number of records per entry: 1 in a store without garbage.
func (s Stats) Ratio() float64 { return float64(s.Records) / float64(max(s.Keys, 1)) }

// Stats returns the counts and sizes of the store. It is quick, and exact while no write is under
// way.
func (db *DB) Stats() Stats {
	s := db.store.Stats()
	return Stats{Keys: s.Keys, Records: s.Records, LiveBytes: s.LiveBytes, LogBytes: s.LogBytes,
		Segments: s.Segments, Compacted: s.Compacted, IndexBytes: s.IndexBytes, CacheBytes: s.CacheBytes, TornBytes: s.TornBytes, SyncInterval: db.config.syncInterval,
		Snapshots: s.Views, SnapshotBytes: s.ViewBytes, HeldBytes: s.HeldBytes, ClockBehind: s.Behind}
}

// Maps yields the name and the number of entries of each map that is open or was ever written to,
// in the order of the names. Entries outside all of them are raw keys and single values. For a store
// on another machine that has no list of its maps, the error handler gets errors.ErrUnsupported.
func (db *DB) Maps() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		if db.driver != nil {
			db.report(db.drivenMaps(yield))
			return
		}
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

// MapPrefix returns the prefix of the raw keys of the entries of map name: the name, with some
// bytes escaped, and a colon. So raw.Prefix(MapPrefix("users")) yields the map's entries, and
// append(MapPrefix("users"), "alice"...) is the raw key of its string key "alice".
func MapPrefix(name string) []byte { return append(keycodec.AppendName(nil, name), ':') }

// MaxKeyBytes is the length of the longest key in bytes, MapPrefix included.
const MaxKeyBytes = engine.MaxKeyBytes

// report passes on an error that the current call cannot return.
func (db *DB) report(err error) {
	if err != nil {
		db.config.onError(err)
	}
}

// typeError makes errors.Is(err, ErrType) true. err gives the reason why the named thing does not
// fit.
func typeError(err error, format string, args ...any) error {
	return &misfit{fmt.Sprintf(format, args...), err}
}

type misfit struct {
	what string
	err  error
}

func (e *misfit) Error() string {
	text := strings.TrimPrefix(e.err.Error(), "copal: ")
	if e.what != "" {
		text = e.what + ": " + text
	}
	return "copal: " + text
}

func (e *misfit) Unwrap() []error { return []error{ErrType, e.err} }

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// Refresh returns when a ReadOnly store shows every write that any process acknowledged before the
// call. Without Refresh the store shows them within about the interval of WithFollowInterval. For
// other stores it does nothing.
func (db *DB) Refresh() error { return db.store.Refresh() }
