package copal

import (
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/clock"
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
	followEvery  time.Duration
	maxMemory    int64
	onError      func(error)
	progress     func(done, total int64)
	maps         mapConfig
	orderedKeys  bool

	// Seams, set by tests.
	fsys         vfs.FS
	backupTo     vfs.FS // that of the store, but for one in memory
	clock        clock.Clock
	random       func() uint64
	segmentBytes int64
	ringBytes    int64
	inline       bool
	noCompaction bool
}

// mapConfig collects the options of a map.
type mapConfig struct {
	codec   codec.Codec
	ttl     time.Duration
	expired any // func(K, V)
	ordered bool

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
		return c, fmt.Errorf("copal: a sync interval of %v; it must be positive", c.syncInterval)
	case c.followEvery <= 0:
		return c, fmt.Errorf("copal: WithFollowInterval(%v); it must be positive", c.followEvery)
	case c.maxMemory < 0:
		return c, fmt.Errorf("copal: WithMaxMemory(%d)", c.maxMemory)
	case c.maps.codec == nil:
		return c, fmt.Errorf("%w: WithCodec(nil)", ErrType)
	case c.maps.ttl < 0:
		return c, fmt.Errorf("copal: WithTTL(%v)", c.maps.ttl)
	case c.onError == nil:
		return c, fmt.Errorf("copal: WithErrorHandler(nil)")
	}
	return c, nil
}

// WithSyncInterval is the longest time that a Set or Delete waits for the disk: it
// survives the death of the process at once, and a power cut after d at the latest.
// The default is one second. A short interval loses less in a power cut; a long one,
// of many minutes even, spares the disk. d must be positive.
func WithSyncInterval(d time.Duration) Option {
	return storeOption(func(c *config) { c.syncInterval = d })
}

// WithMaxMemory bounds the memory of the store: of the index, of the newest end of the log (at most 4 MiB; a
// sixteenth where there is less than 64 MiB, but not below 64 KiB), of the values that are kept decoded and
// of those that are yet to be written. The index comes first, at about 16 bytes for a key; values get
// what is left, and the least used go. Values of SetInMemory count and do not
// go; nor do asynchronous writes before they are written, which they are at once when there is no room. The default, for which 0 stands, is a quarter of the memory of the machine, or of the control group that the
// process runs in. A small store needs no more than it holds; with little, reads come from the log.
func WithMaxMemory(bytes int64) Option {
	return storeOption(func(c *config) { c.maxMemory = bytes })
}

// KeepHistory leaves every record in the log: nothing is compacted, but by Compact. The files then tell everything that ever
// happened, and grow with each write.
func KeepHistory() Option {
	return storeOption(func(c *config) { c.noCompaction = true })
}

// ReadOnly opens an existing store for reading, beside a process that writes or
// none. It follows the process that writes: each write that was acknowledged there, but for
// asynchronous ones that the log does not have yet, shows a moment later; see WithFollowInterval and DB.Refresh. Writes return ErrReadOnly.
//
// In a directory where no process has opened a store for writing there is none: the error of Open is
// fs.ErrNotExist. One that was opened for writing, and not written to yet, is an empty store.
func ReadOnly() Option {
	return storeOption(func(c *config) { c.readOnly = true })
}

// WithErrorHandler passes to f each error that no call can return: of syncing in the
// background, and of the reads behind Get, All, Keys, Values and Range. f may be
// called by several goroutines at once; it may use the store, but not close it, for
// Close waits until f has returned. Without this option such errors go to the standard
// logger of package log.
func WithErrorHandler(f func(error)) Option {
	return storeOption(func(c *config) { c.onError = f })
}

// WithProgress passes to f, while a store is opened of whose log more than a few megabytes have to be read, now and then how many
// bytes of all that are to be read have been. That is so after a crash, and when a file is missing that is derived from the log.
func WithProgress(f func(done, total int64)) Option {
	return storeOption(func(c *config) { c.progress = f })
}

// WithCodec stores the values of a map with c instead of codec.JSON. Records that
// are there already are read with the codec that wrote them, if it is c or comes with
// copal. Given to Open, it also holds for the single values of Set and Get.
func WithCodec(c codec.Codec) MapOption {
	return mapOption(func(m *mapConfig) { m.codec, m.ownCodec = c, true })
}

// WithTTL gives each entry that is written to a map a time to live, unless the write itself gives one:
// Set and its kin write as SetTTL with d does, an Update that makes an entry gives it d, and one that
// changes an entry leaves its deadline as it is. Raw writes and Persist give none. Without this
// option, and with 0, entries stay. What is in the map already keeps the deadline that it has, or none.
func WithTTL(d time.Duration) MapOption {
	return mapOption(func(m *mapConfig) { m.ttl, m.ownTTL = d, true })
}

// WithOnExpire calls f with each entry of the map that expires while the map is open, and the value that
// it had, after it has gone: no read finds it any more, and there may be another under its key already. Each
// such entry is passed at most once; those not when the process dies, or Close is called, before their turn,
// nor those that expire while the map is not open, or in a store that was opened read-only. An entry that was
// overwritten or deleted before its deadline has not expired.
//
// One goroutine of the store calls f, for one entry after the other, soon after the deadline. It holds
// no lock, so f may use the store; but not close it, for DB.Close waits until f has returned.
// What expires meanwhile waits in the log as long as nobody meets it there, and in memory if somebody does, so f should be quick.
// The value may be shared with readers: treat what it points to as read-only. One that cannot be read goes to the
// error handler.
//
// K and V must be those of the map, or OpenMap returns ErrType. Given to Open, it holds for the maps
// of these types alone.
func WithOnExpire[K comparable, V any](f func(key K, v V)) MapOption { return expireOption{f} }

type expireOption struct{ f any }

func (o expireOption) applyStore(c *config)  { c.maps.expired = o.f }
func (o expireOption) applyMap(c *mapConfig) { c.expired, c.ownExpired = o.f, true }
