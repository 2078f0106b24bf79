package hybridlog

import (
	"io/fs"
	"log"
	"math/rand/v2"
	"time"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/vfs"
)

// Option changes how a log is opened. A [SyncPolicy] is one, too.
type Option interface{ apply(*options) }

// SyncPolicy is the time at which a write survives a power cut without a call of [Log.Sync]. Under
// each policy it survives the death of the process.
type SyncPolicy int

const (
	// NoSync leaves it to the operating system and to Close. It is the default. Full segments are
	// synced in the background. A power cut may take the writes in the newest segment, and in up to
	// eight before it that were not synced yet.
	NoSync SyncPolicy = iota
	// SyncEverySecond syncs once a second while there is something to sync: a power cut may lose
	// the last second.
	SyncEverySecond
	// AlwaysSync lets a write return when it is on the disk. Writers that wait share a sync.
	AlwaysSync
)

func (p SyncPolicy) apply(o *options) { o.policy = p }

const (
	defaultSegmentBytes = 128 << 20
	leastSegmentBytes   = 64 << 10
	mostSegmentBytes    = 4 << 30
	defaultCompactEvery = time.Hour
	defaultRoomKept     = 64 << 10
	defaultDataRing     = 4 << 20
	defaultFrameRing    = 1 << 20
	ringBypass          = 48 << 10 // a write this long goes to the file at once: the copy would cost more than the call
)

type options struct {
	policy       SyncPolicy
	readOnly     bool
	acceptCopy   bool
	timeout      time.Duration
	segmentBytes int64
	segmentSlots int64 // frames in a segment
	every        time.Duration
	fragments    int
	report       func(error)

	fsys      vfs.FS
	clock     clock.Clock
	random    func() uint64
	dataRing  int64 // bytes; 0 for no ring
	frameRing int64
	bypass    int
	roomKept  int64
	inline    bool // no goroutines, for tests that count operations
}

func newOptions(list []Option) *options {
	o := &options{
		segmentBytes: defaultSegmentBytes, segmentSlots: 1 << 20, every: defaultCompactEvery,
		report: func(err error) { log.Print(err) },
		fsys:   vfs.OS(), clock: clock.System{}, random: rand.Uint64,
		dataRing: defaultDataRing, frameRing: defaultFrameRing, bypass: ringBypass, roomKept: defaultRoomKept,
	}
	for _, option := range list {
		option.apply(o)
	}
	return o
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// ReadOnly opens the present state of the log, also while a process writes it, and changes nothing.
// The log shows the writes from before Open; to see later ones, open it again. A read of bytes that
// the writer trims meanwhile may be ErrTrimmed.
func ReadOnly() Option { return optionFunc(func(o *options) { o.readOnly = true }) }

// AcceptCopy also opens a copy of a log that was not closed, which may lack the last writes that
// were acknowledged in the original. Without this option the error is ErrCopied. With its first
// write, or Close at the latest, the copy becomes a log of its own, which opens without this
// option. With ReadOnly the files do not change.
func AcceptCopy() Option { return optionFunc(func(o *options) { o.acceptCopy = true }) }

// FileMode sets the permissions of the files that the log makes, whatever the umask: 0600 by default, so that
// their owner alone reads and writes them. A directory that is made can also be searched by those that may read
// its files: 0640 makes directories of 0750. Earlier files keep their permissions.
func FileMode(mode fs.FileMode) Option {
	return optionFunc(func(o *options) { o.fsys = vfs.OSWithMode(mode&fs.ModePerm | vfs.OwnerOnly) })
}

// OpenTimeout sets how long Open waits for another writer to close the log before it returns
// ErrLocked. By default it does not wait.
func OpenTimeout(d time.Duration) Option { return optionFunc(func(o *options) { o.timeout = d }) }

// SegmentBytes sets the length of the log's files in bytes: 128 MiB by default, at least 64 KiB and
// at most 4 GiB. A single write that is longer makes a longer file. Trimming gives back whole
// segments, so smaller ones give back space in smaller steps; larger ones need fewer files.
func SegmentBytes(n int64) Option {
	return optionFunc(func(o *options) { o.segmentBytes = min(max(n, leastSegmentBytes), mostSegmentBytes) })
}

// CompactEvery sets how often the log looks for something to compact: every hour by default. 0
// turns it off.
func CompactEvery(d time.Duration) Option { return optionFunc(func(o *options) { o.every = d }) }

// CompactFragments also compacts the log as soon as it has n fragments, see [Stats]. 0, the
// default, turns this off.
func CompactFragments(n int) Option { return optionFunc(func(o *options) { o.fragments = n }) }

// OnError sets the function that gets errors which no call can return, such as those of compaction
// in the background. By default they go to package log. The function must not use the log.
func OnError(f func(error)) Option { return optionFunc(func(o *options) { o.report = f }) }
