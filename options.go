package copal

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"math"
	"time"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/vfs"
)

// Option is a setting of a store. Every MapOption is one too: given to Open, it is
// the default of the store's maps.
type Option interface {
	applyStore(*config)
}

// MapOption is a setting of one map.
type MapOption interface {
	Option
	applyMap(*mapConfig)
}

// config collects the options of a store.
type config struct {
	readOnly     bool
	syncInterval time.Duration
	autoCompact  bool // every so often, above a ratio
	compactEvery time.Duration
	compactRatio float64
	tooMany      func(*engine.Store) bool // by compactRatio
	followEvery  time.Duration
	follower     func(*engine.Store, *seglog.Recovery) engine.Follower // filled in by ReadOnly
	passing      func(*engine.Store, *seglog.Recovery)                 // the same
	maxMemory    int64
	onError      func(error)
	progress     func(done, total int64)
	acceptCopy   bool
	fileMode     fs.FileMode
	maps         mapConfig
	orderedKeys  bool

	history      *time.Duration
	historyBytes *int64

	fsys     vfs.FS
	backupTo vfs.FS                  // as fsys, except for a store in memory
	seams    []func(*engine.Options) // of opened.Seam
}

// mapConfig collects the options of a map.
type mapConfig struct {
	codec   codec.Codec
	ttl     time.Duration
	expired any // func(K, V)
	ordered bool
	expiry  bool // its end at the deadline is a Change

	// Which of them were given for this map, and not for all of the store.
	ownCodec, ownTTL, ownExpired bool
}

type storeOption func(*config)

func (o storeOption) applyStore(c *config) { o(c) }

type mapOption func(*mapConfig)

func (o mapOption) applyStore(c *config) {
	o(&c.maps)
	c.maps.ownCodec, c.maps.ownTTL = false, false
}
func (o mapOption) applyMap(c *mapConfig) { o(c) }

func newConfig(opts []Option) (config, error) {
	c := config{
		syncInterval: time.Second,
		followEvery:  50 * time.Millisecond,
		fileMode:     vfs.OwnerOnly,
		onError:      func(err error) { log.Print(err) },
		maps:         mapConfig{codec: codec.JSON},
	}
	for _, o := range opts {
		if o != nil {
			o.applyStore(&c)
		}
	}
	switch {
	case c.syncInterval <= 0:
		return c, fmt.Errorf("copal: WithSyncInterval(%v); it must be positive", c.syncInterval)
	case c.autoCompact && (c.compactEvery <= 0 || !(c.compactRatio >= 1)):
		return c, fmt.Errorf("copal: WithAutoCompact(%v, %v); the time must be positive, and the ratio at least 1", c.compactEvery, c.compactRatio)
	case c.followEvery <= 0:
		return c, fmt.Errorf("copal: WithFollowInterval(%v); it must be positive", c.followEvery)
	case c.history != nil && *c.history < 0:
		return c, fmt.Errorf("copal: WithHistory(%v); it must not be negative", *c.history)
	case c.historyBytes != nil && *c.historyBytes < 0:
		return c, fmt.Errorf("copal: WithHistoryBytes(%d); it must not be negative", *c.historyBytes)
	case c.maxMemory < 0:
		return c, fmt.Errorf("copal: WithMaxMemory(%d); it must not be negative", c.maxMemory)
	case c.fileMode&^fs.ModePerm != 0 || c.fileMode&vfs.OwnerOnly != vfs.OwnerOnly:
		return c, fmt.Errorf("copal: WithFileMode(%#o); it must be permissions, and the owner must be able to read and write", uint32(c.fileMode))
	case c.onError == nil:
		return c, errors.New("copal: WithErrorHandler or WithLogger with nil; pass a function or a logger")
	}
	c.fsys = c.disk()
	return c, c.maps.check()
}

// engine returns o as the seams change it.
func (c *config) engine(o engine.Options) engine.Options {
	for _, set := range c.seams {
		set(&o)
	}
	return o
}

func (c *config) disk() vfs.FS { return vfs.OSWithMode(c.fileMode) }

// check returns an error for options that no map can have.
func (c *mapConfig) check() error {
	switch {
	case c.codec == nil:
		return errors.New("copal: WithCodec(nil); leave the option out for codec.JSON")
	case c.ttl < 0:
		return fmt.Errorf("copal: WithTTL(%v); it must not be negative", c.ttl)
	}
	return nil
}

// WithSyncInterval sets how long a write waits for the disk at most. A Set survives the death of the
// process at once, and the loss of power after d at the latest; a SetAsync survives either after d. The
// default is one second. A short interval loses less when the power goes; a long one, of many minutes
// even, spares the disk. d must be positive.
func WithSyncInterval(d time.Duration) Option {
	return storeOption(func(c *config) { c.syncInterval = d })
}

// WithFileMode sets the permissions of the files that the store makes, whatever the umask: 0600 by default, so that
// their owner alone reads and writes them. A directory that is made can also be searched by those that may read
// its files: 0640 makes directories of 0750. Backups get the same. Earlier files keep their permissions.
func WithFileMode(mode fs.FileMode) Option {
	return storeOption(func(c *config) { c.fileMode = mode })
}

// WithAutoCompact compacts the log whenever it has more than ratio records for each entry (see
// Stats.Ratio) and 64 KiB can be gained. It looks when the store is opened, and every so often from
// then on. This is in addition to the compaction that is always on, which leaves small stores alone
// until it can gain 32 MiB. Ratios of 1.8 and 2.0 are usual: the lower it is, the more often a live
// record is copied. every must be positive, and ratio at least 1. The option has no effect with
// ReadOnly. Records in the window of WithHistory are not removed.
func WithAutoCompact(every time.Duration, ratio float64) Option {
	return storeOption(func(c *config) {
		c.autoCompact, c.compactEvery, c.compactRatio = true, every, ratio
		c.tooMany = engine.RecordsAbove(ratio)
	})
}

// WithMaxMemory bounds the memory of the store in bytes. It covers four things:
//
//   - the index, at about 16 bytes a key, which comes first;
//   - the newest end of the log, at most 4 MiB, or a sixteenth of less than 64 MiB, but at least 64 KiB;
//   - asynchronous writes before they are written, which happens at once when there is no room;
//   - decoded values, which get the rest. The least used are evicted, except those of SetInMemory.
//
// The default, also given as 0, is a quarter of the memory of the machine, or of the control group
// of the process. A small store takes only the memory it needs. With a low bound, more reads come
// from the log.
func WithMaxMemory(bytes int64) Option {
	return storeOption(func(c *config) { c.maxMemory = bytes })
}

// WithHistory keeps a window of history: DB.AsOf shows the store at any moment of the last d, and
// Watch yields the changes since then. Replaced and deleted records stay in the log for that time,
// so the files are longer by everything that is written in d.
//
// The store remembers the window for later processes, until another WithHistory or
// WithHistoryBytes. The window begins with the first write of the first process that gives the
// option, or with the store if it was never compacted. A longer window does not bring removed
// records back. 0 ends the window; with Forever it never moves, unless WithHistoryBytes is given
// too.
//
// In a store with a window, compaction takes the memory of a second index while it works, and reads
// the log up to the beginning of the window.
func WithHistory(d time.Duration) Option {
	return storeOption(func(c *config) { c.history = &d })
}

// WithHistoryBytes bounds the window of history by its bytes in the log: a replaced record stays
// until n more bytes have been written to the log. All records count, as in Stats.LogBytes, and
// compaction removes whole segments: at least n bytes stay, and up to a segment of 64 MiB more. So
// the files hold the window, the entries at its beginning, and as much garbage as a store without a
// window.
//
// With WithHistory as well, the bound that is reached first limits the window. Either option
// replaces both bounds of an earlier process. n must not be negative; 0 ends the window, as
// WithHistory(0) does.
func WithHistoryBytes(n int64) Option {
	return storeOption(func(c *config) { c.historyBytes = &n })
}

// Forever, for WithHistory, keeps everything that was ever written.
const Forever time.Duration = math.MaxInt64

// window returns the window for the log (seglog.Options.Window and WindowBytes).
func (c *config) window() (millis, bytes int64) {
	if c.history == nil && c.historyBytes == nil {
		return 0, 0
	}
	millis = math.MaxInt64
	if c.history != nil && *c.history != Forever {
		millis = max(c.history.Milliseconds(), 1)
	}
	if c.historyBytes != nil {
		bytes = *c.historyBytes
	}
	if c.history != nil && *c.history == 0 || c.historyBytes != nil && bytes == 0 {
		return -1, 0
	}
	return millis, bytes
}

// ReadOnly opens an existing store for reading, also while another process writes. It follows the
// process that writes: it shows each write that was acknowledged there a moment later, except
// asynchronous writes that the log does not have yet; see WithFollowInterval and DB.Refresh. Writes
// return ErrReadOnly.
//
// If no process has opened the directory for writing yet, the error of Open is fs.ErrNotExist.
// After the first opening for writing it is an empty store.
func ReadOnly() Option {
	return storeOption(func(c *config) { c.readOnly, c.follower, c.passing = true, store.Follower, engine.PassDamage })
}

// WithFollowInterval sets how often a ReadOnly store looks for new records of the writing process:
// every 50 ms by default. A longer interval costs an idle process less, and shows writes later; see
// also DB.Refresh. d must be positive.
func WithFollowInterval(d time.Duration) Option {
	return storeOption(func(c *config) { c.followEvery = d })
}

// AcceptCopy also opens a copy of a store that was not closed, made by cp or rsync while a process
// writes, or after it was killed. Without this option the error is ErrCopied. Such a copy may lack
// the last writes that were acknowledged in the original, and copal cannot detect the loss: such
// tools compare the length and the time of a file, which a write need not change. Opening the copy
// recovers its writes as after a loss of power. With its first write, or Close at the latest, the
// copy becomes a store of its own, which opens without this option. With ReadOnly the files do not
// change.
//
// DB.Backup makes a complete copy while a process writes. The files of a closed store can be copied
// by any means.
func AcceptCopy() Option { return storeOption(func(c *config) { c.acceptCopy = true }) }

// WithErrorHandler passes to f each error that no call can return: errors of syncing in the
// background, and of reads such as Get and All, unless their handles have a context of OnError.
// Several goroutines may call f at once. f may use
// the store, but not close it, for Close waits until f has returned. Without this option such
// errors go to the standard logger of package log.
func WithErrorHandler(f func(error)) Option {
	return storeOption(func(c *config) { c.onError = f })
}

// WithLogger is WithErrorHandler for programs that use log/slog: each such error is a record of level Error with
// the message "copal" and the error under the key "err".
func WithLogger(l *slog.Logger) Option {
	if l == nil {
		return WithErrorHandler(nil)
	}
	return WithErrorHandler(func(err error) { l.Error("copal", "err", err) })
}

// WithProgress calls f now and then during Open with the bytes of the log that have been read and
// that have to be read, if they are more than a few megabytes. That happens after a crash, and when
// a file derived from the log is missing.
func WithProgress(f func(done, total int64)) Option {
	return storeOption(func(c *config) { c.progress = f })
}

// WithCodec stores the values of a map with c instead of codec.JSON. Older records are read with
// the codec that wrote them, if that is c or one of package codec. Given to Open, the option also
// holds for the single values of Set and Load.
func WithCodec(c codec.Codec) MapOption {
	return mapOption(func(m *mapConfig) { m.codec, m.ownCodec = c, true })
}

// WithTTL gives each entry that is written to a map a time to live, unless the write itself gives
// one. Set, SetFSync and SetAsync write as SetTTL with d does; an Update that creates an entry
// gives it d, and one that changes an entry leaves its deadline. Raw writes and Persist give none.
// Without this option, and with 0, entries stay. An entry that is in the map already keeps its
// deadline, or has none.
func WithTTL(d time.Duration) MapOption {
	return mapOption(func(m *mapConfig) { m.ttl, m.ownTTL = d, true })
}

// WithOnExpire calls f with each entry of the map that expires while the map is open, and the value
// that it had. The entry is deleted by then, and its key may have a new entry. Each such entry is
// passed at most once. It is not passed if the process dies, or Close is called, before its turn;
// if it expires while the map is not open, or in a read-only store; or if it was overwritten or
// deleted before its deadline.
//
// One goroutine of the store calls f, for one entry after the other, soon after the deadline. It
// holds no lock, so f may use the store; but f must not close it, for DB.Close waits until f has
// returned. Entries that expire meanwhile wait in the log, or in memory if a read finds them there,
// so f should be quick. A value that cannot be read goes to the error handler.
//
// K and V must be those of the map, or OpenMap returns ErrType. Given to Open, the option holds for the
// maps of these types alone.
func WithOnExpire[K comparable, V any](f func(key K, v V)) MapOption { return expireOption{f} }

// ExpiryEvents has Watch yield a Change when an entry of the map has expired: it is Expired, comes
// once, in order among the writes of the key, and has a sequence number of its own, from which
// WithAfter goes on. Given to Open, the option holds for all maps, for raw keys and for single
// values.
//
// It costs one more record of the log for each entry that expires, some 50 bytes. The record is
// written within 100 ms of the deadline while a process has the store open for writing. For an
// entry that expires while there is none, it is written with the first write after the next
// opening, because opening alone writes nothing. The log remembers the option from the next write
// on, so later openings need not give it.
//
// There is no such Change for an entry that was replaced or deleted before its deadline, nor for a
// SetAsync that expired before the log had it. If such a SetAsync replaced an entry that the log
// has, that entry ends with a Change that has the deadline of the SetAsync. An entry written before
// the map was first opened with this option has a Change if it expires while a process has the
// store open.
func ExpiryEvents() MapOption { return mapOption(func(m *mapConfig) { m.expiry = true }) }

type expireOption struct{ f any }

func (o expireOption) applyStore(c *config)  { c.maps.expired = o.f }
func (o expireOption) applyMap(c *mapConfig) { c.expired, c.ownExpired = o.f, true }
