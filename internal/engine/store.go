package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/keyhash"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/sysmem"
	"github.com/copaldb/copal/internal/vfs"
)

// Options are the seams and settings of a store. The zero value of each field means its default.
type Options struct {
	FS           vfs.FS // the operating system's
	Clock        clock.Clock
	Random       func() uint64 // for salts and identities
	ReadOnly     bool
	SyncInterval time.Duration // 1 s
	SegmentBytes int64         // nominal size of a segment, 64 MiB
	MaxMemory    int64         // bytes; a quarter of the machine's by default
	RingBytes    int64         // size of the mapped ring, by default at most 4 MiB; negative for none
	OnError      func(error)   // receives errors that no call can return
	Inline       bool          // no goroutine: tests count operations
	FollowEvery  time.Duration // between two looks of a read-only store, 50 ms
	NoCompaction bool          // none in the background
	CompactEvery time.Duration // between two looks whether TooMany reports true
	NoSnapshot   bool          // of the index: none is read, nor taken
	GroupBytes   int64         // of records that count together, appended at once, 1 MiB
	ExpiryEvents bool          // the end of an entry at its deadline is a record, in all tables
	Window       int64         // of history, see seglog.Options
	WindowBytes  int64         // of it, see seglog.Options
	AcceptCopy   bool          // see seglog.Options
	HistoryBytes int64         // of files out of use that are kept for readers of the history at least, 64 MiB

	// Parts that work in the store by themselves, each made once the log has been read. By default there is none.
	Compaction func(*Store) Compaction                 // gives space back
	Follower   func(*Store, *seglog.Recovery) Follower // follows another process, in a read-only store

	// TooMany, if not nil, reports whether there are too many records for the entries: RecordsAbove.
	TooMany func(*Store) bool

	// Passing, if not nil, lets a read-only store open in spite of damage: PassDamage.
	Passing func(*Store, *seglog.Recovery)

	LogPerIndex int64 // see seglog.Options

	Until      *seglog.Moment // at which recovery stops (moment.go); nil for the end of the log
	indexBelow uint64         // only a snapshot of the index with a lower Seq helps to make that moment

	// Progress, if not nil, is called while the log is read, with the bytes read so far and in all.
	Progress func(done, total int64)
}

const (
	defaultSyncInterval = time.Second
	defaultFollowEvery  = 50 * time.Millisecond // between two looks
)

// Store is an open store. It is safe for concurrent use.
type Store struct {
	opts Options
	seed keyhash.Seed // of the hashes of keys; see chooseSeed
	log  *seglog.Log
	lock *vfs.Held

	life   gate
	closed bool  // guarded by life, and by any one of keys
	gone   error // of later calls

	keys    [cache.Shards]keyLock // by hash: one writer per key
	showing showing               // of the same shards

	budget    cache.Budget
	cellsMu   sync.Mutex
	attached  atomic.Pointer[[]*Cells] // of the open maps; replaced under cellsMu
	turn      atomic.Uint64            // of the shards, to give up cells
	flushTold string                   // the last error of the keeper's flushing; the keeper's own

	queues       queues
	transactions transactions
	views        views
	histories    histories
	moments      moments
	opening      opening
	ranged       ranged
	reports      reports
	expirer      expirer
	orders       orders
	sweeper      sweeper

	spaces map[uint64]*space // guarded by life

	brake        brake
	compaction   Compaction // from the end of recovery on
	notes        notes
	retired      atomic.Pointer[[]retired] // segments out of use, nil for none; see outOfUse
	follower     Follower                  // from the end of recovery on
	replaying    sync.Mutex                // held while a read-only store replays (Replay), and by callers that need all counted records replayed; taken before life
	housekeeping sync.Mutex                // held by a compaction, and while a snapshot is taken; taken before life (Housekeep)
	closing      atomic.Bool               // ends one

	schemaMu      sync.Mutex
	schemas       map[uint64]Schema
	schemaNumbers map[Schema]uint64

	snapshot *snapshotFile // that the store was opened from, nil for none
	shadow   bool          // see reread

	ranges  []replayedRange  // that recovery has found
	reading *seglog.Recovery // while the log is read at opening, or anew

	opened uint64                 // when recovery had ended, in Unix milliseconds
	torn   int64                  // bytes that recovery did not count
	pass   bool                   // recovery goes on after damage
	damage []*seglog.CorruptError // that it passed
	lost   map[lostKey]lostEntry  // entries whose records cannot be read; nil for none. Of recovery, and then guarded by replaying

	stop       chan struct{} // ends the goroutines of the log
	stopOnce   sync.Once
	goroutines sync.WaitGroup
}

// keyLock has a cache line to itself.
type keyLock struct {
	sync.Mutex
	due interface{ removeLocked() } // a *removal, carried out first under the lock; nil for none
	_   [40]byte
}

// Open opens the store in dir, which it creates when it is missing and the store is not opened read-only.
func Open(dir string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	if !opts.ReadOnly {
		s, err := open(dir, opts, false)
		if errors.Is(err, seglog.ErrCorrupt) {
			err = fmt.Errorf("%w; copal repair copies the intact records to a new store, and a read-only open can read them", err)
		}
		return s, err
	}
	s, err := openIntact(dir, opts)
	if err == nil || !errors.Is(err, seglog.ErrCorrupt) || opts.Passing == nil {
		return s, err
	}
	if s, passed := open(dir, opts, true); passed == nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w; copal repair copies the intact records to a new store", err)
}

// openIntact opens the store in dir to read it, beside writers of the log, if nothing in it is damaged.
func openIntact(dir string, opts Options) (*Store, error) {
	for looks := (seglog.Looks{}); ; {
		s, err := open(dir, opts.withDefaults(), false)
		if err == nil || !errors.Is(err, seglog.ErrCorrupt) || !looks.Again(err) {
			return s, err
		}
	}
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	if o.SyncInterval <= 0 {
		o.SyncInterval = defaultSyncInterval
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = seglog.DefaultSegmentBytes
	}
	if o.MaxMemory <= 0 {
		o.MaxMemory = sysmem.Total() / 4
	}
	if o.RingBytes == 0 {
		o.RingBytes = seglog.RingFor(o.MaxMemory)
	}
	if o.GroupBytes <= 0 {
		o.GroupBytes = defaultGroupBytes
	}
	if o.HistoryBytes <= 0 {
		o.HistoryBytes = defaultHistoryBytes
	}
	if o.Compaction == nil {
		o.Compaction = func(*Store) Compaction { return uncompacted{} }
	}
	if o.FollowEvery <= 0 {
		o.FollowEvery = defaultFollowEvery
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	return o
}

// open opens the store. With pass recovery goes on after damage where possible.
func open(dir string, opts Options, pass bool) (_ *Store, err error) {
	if err := seglog.CheckDir(opts.FS, dir, !opts.ReadOnly); err != nil {
		return nil, err
	}
	var lock *vfs.Held
	if !opts.ReadOnly {
		if lock, err = seglog.LockDir(opts.FS, dir); err != nil {
			return nil, err
		}
		opts.FS = lock
	}
	s := newStore(dir, opts)
	s.lock, s.pass, s.orders.inline = lock, pass, true
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	r, err := s.recoverWithSnapshot(dir)
	if err != nil {
		return nil, err
	}
	s.orders.inline = false
	s.opened = s.now()
	if err := seglog.ReadUnfinished(opts.FS, dir); errors.Is(err, seglog.ErrUnfinished) { // left by work on a store that opens
		s.reports.add(err)
	}
	s.reportDamage()
	if opts.Until == nil {
		s.log.ReportClock()
	}
	if !opts.Inline {
		s.stop = make(chan struct{})
	}
	s.compaction, s.follower = opts.Compaction(s), unfollowing{}
	if opts.ReadOnly && opts.Follower != nil {
		s.follower = opts.Follower(s, r)
	}
	if !opts.ReadOnly {
		s.beginSweeping() // before anything expires, and before there is a snapshot
	}
	ordered := s.hasOrder() // before a follower declares maps
	if !opts.ReadOnly && !opts.Inline {
		s.log.SettleSoon()
		if !opts.NoSnapshot {
			s.goroutines.Go(func() { s.keepSnapshot(s.stop) })
		}
		s.goroutines.Add(2)
		s.goroutines.Go(func() { s.compaction.Keep(s.stop) })
		go func() { defer s.goroutines.Done(); s.log.Keep(opts.SyncInterval, s.stop) }()
		go func() { defer s.goroutines.Done(); s.log.KeepDrained(opts.SyncInterval, s.stop) }()
		s.beginExpiry()
	}
	if opts.ReadOnly && !opts.Inline {
		s.goroutines.Go(func() { s.follower.Keep(s.stop) })
	}
	if ordered {
		s.beginFolding()
	}
	return s, nil
}

// newStore returns a store without open files.
func newStore(dir string, opts Options) *Store {
	s := &Store{
		opts:          opts,
		gone:          seglog.ErrClosed,
		spaces:        map[uint64]*space{},
		schemas:       map[uint64]Schema{},
		schemaNumbers: map[Schema]uint64{},
	}
	s.reports.deliver = opts.OnError
	s.reports.idle = sync.NewCond(&s.reports.mu)
	s.queues.of = map[subject]*queue{}
	s.transactions.init()
	s.views.budget = &s.budget
	share := int64(0)
	if !opts.ReadOnly {
		share = seglog.RingShare(opts.RingBytes, opts.MaxMemory)
	}
	s.budget.SetLimit(opts.MaxMemory - share)
	s.attached.Store(new([]*Cells))
	s.space(0)
	s.log = s.newLog(dir)
	return s
}

// Without returns a store that has no log: its operations return the error why. Its clock works.
func Without(why error, opts Options) *Store {
	s := newStore("", opts.withDefaults())
	s.closed, s.gone = true, why
	s.compaction, s.follower = s.opts.Compaction(s), unfollowing{}
	return s
}

// NoView returns a view of a store without a log: every read of it returns the store's error.
func (s *Store) NoView() *View { return &View{store: s} }

// NoTx returns a transaction that has ended.
func (s *Store) NoTx() *Tx {
	tx := &Tx{store: s}
	tx.done.Store(true)
	return tx
}

func (s *Store) newLog(dir string) *seglog.Log {
	opts := &s.opts
	o := seglog.Options{
		FS: opts.FS, Dir: dir, Clock: opts.Clock, Random: opts.Random, ReadOnly: opts.ReadOnly, Inline: opts.Inline, SegmentBytes: opts.SegmentBytes, RingBytes: opts.RingBytes, Window: opts.Window, WindowBytes: opts.WindowBytes, AcceptCopy: opts.AcceptCopy, LogPerIndex: opts.LogPerIndex,
		Flush: s.flushPeriodically, Filled: func() { s.compaction.Wake() }, Begun: s.expirer.begun, ShortOfRoom: func(int64) {}, Report: s.reports.add,
	}
	if !opts.NoCompaction && !opts.Inline { // else writes would wait for ever
		o.ShortOfRoom = func(free int64) { s.compaction.ShortOfRoom(free) }
	}
	s.histories.most = opts.HistoryBytes
	return seglog.NewLog(o)
}

// recoverWithSnapshot recovers with the help of a snapshot of the index. If the content of the
// files makes that fail, it begins anew and reads all of the log: then the cause is in the log.
func (s *Store) recoverWithSnapshot(dir string) (*seglog.Recovery, error) {
	s.log.CacheID = s.opts.FS.CacheID(dir) // now that the directory is there
	r, err := s.recover(!s.opts.NoSnapshot)
	if !errors.Is(err, seglog.ErrMismatch) && (s.snapshot == nil || !errors.Is(err, seglog.ErrCorrupt)) {
		return r, err
	}
	if err := s.empty(dir); err != nil {
		return nil, err
	}
	return s.recover(false)
}

// reportDamage reports the damage that recovery passed to the error handler.
func (s *Store) reportDamage() {
	for _, err := range s.damage {
		s.reports.add(err)
	}
}

// empty undoes a recovery.
func (s *Store) empty(dir string) error {
	if err := s.releaseLog(); err != nil {
		return err
	}
	cacheID := s.log.CacheID
	s.log = s.newLog(dir)
	s.log.CacheID = cacheID
	s.seed, s.snapshot, s.spaces, s.lost = 0, nil, map[uint64]*space{}, nil
	s.schemas, s.schemaNumbers = map[uint64]Schema{}, map[Schema]uint64{}
	s.space(0)
	return nil
}

// chooseSeed draws the seed of the hashes of keys from the identity of the store, unless there is a
// seed already. It never changes while the store is open, because open maps and reads under way
// keep hashes. So a reader that was opened before the first write keeps the seed of that time.
func (s *Store) chooseSeed(store uint64) {
	if s.seed == 0 {
		s.seed = keyhash.New(store)
	}
}

func (s *Store) release() error {
	err := s.releaseLog()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// releaseLog closes the files that recovery has opened.
func (s *Store) releaseLog() error {
	s.closeTables()
	var errs []error
	if s.snapshot != nil {
		errs = append(errs, s.snapshot.file.Close())
	}
	errs = append(errs, s.log.Release())
	return errors.Join(errs...)
}

// Close syncs all writes and releases the store. Calls after the first do nothing.
func (s *Store) Close() error {
	err := s.close()
	s.reports.wait()
	return err
}

func (s *Store) close() error {
	s.closeMoments()
	s.stopKeeper() // which takes locks that are held below
	if !s.opts.ReadOnly && !s.opts.Inline && !s.Ended() {
		s.compaction.Finish()
	}
	s.closing.Store(true)
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	s.replaying.Lock() // a look may open a segment
	defer s.replaying.Unlock()
	s.exclude()
	defer s.admit()
	if s.closed {
		return nil
	}
	s.closed = true
	s.follower.Leave()
	s.log.EndWaiting()
	var last flushed
	for _, c := range *s.attached.Load() {
		for n := range cache.Shards {
			s.endShardLocked(c, n, &last)
		}
	}
	var w *snapshotWriter
	err := s.log.Finish(func() *seglog.SavedIndex {
		if s.opts.NoSnapshot || last.refused != nil {
			return nil
		}
		w = s.lastSnapshot()
		return w.saved
	})
	if w != nil && w.saved != nil && s.log.Snapshot.Load() == w.saved {
		s.removeRuns(w.x, true)
	}
	s.closeRetired()
	return errors.Join(last.err(), err, s.release())
}

// stopKeeper returns when the goroutines of the log have ended.
func (s *Store) stopKeeper() {
	if s.stop != nil {
		s.endExpiry()
		s.endFolding()
		s.endSweeping()
		s.stopOnce.Do(func() { close(s.stop) })
		s.goroutines.Wait()
	}
}

// exclude waits until no operation is under way, and blocks others until admit.
func (s *Store) exclude() {
	s.life.exclude()
	for i := range s.keys {
		s.keys[i].Lock()
	}
}

func (s *Store) admit() {
	for i := range s.keys {
		s.keys[i].Unlock()
	}
	s.life.admit()
}

// grace returns when all operations that were inside at the call, or held the lock of a key, have ended: none
// has an address then that had left the index and the cells before.
func (s *Store) grace() {
	s.life.grace()
	s.PassKeys()
}

// use begins an operation. The caller ends it with s.life.leave when there is no error.
func (s *Store) use() (pass, error) {
	in := s.life.enter()
	if s.closed {
		s.life.leave(in)
		return 0, s.gone
	}
	return in, nil
}

// Inside calls f inside the gate: the store stays open, no map is declared, and a segment that leaves the log
// meanwhile stays readable. It returns the error of f, or ErrClosed.
func (s *Store) Inside(f func() error) error {
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	return f()
}

// isOpen returns ErrClosed for a store that is closed.
func (s *Store) isOpen() error { return s.Inside(func() error { return nil }) }

// useForWrite is use for an operation that may append.
func (s *Store) useForWrite() (pass, error) {
	in, err := s.use()
	if err != nil {
		return 0, err
	}
	if s.opts.ReadOnly {
		s.life.leave(in)
		return 0, seglog.ErrReadOnly
	}
	return in, nil
}

// Sync returns when everything written before the call is on the disk. An error that concerns one value alone
// is no reason not to sync the others.
func (s *Store) Sync() error { return s.syncFlushed(s.flushAll()) }

// SyncCells is Sync for the writes to one map.
func (s *Store) SyncCells(c *Cells) error { return s.syncFlushed(s.flush(c)) }

func (s *Store) syncFlushed(f flushed) error {
	if f.refused == nil {
		f.refused = s.sync()
	}
	return f.err()
}

func (s *Store) sync() error {
	in, err := s.use()
	if err != nil {
		return err
	}
	s.life.leave(in) // a waiter for life must not wait for the disk; Close syncs this, too
	if err := s.log.Failure(); err != nil || s.opts.ReadOnly {
		return err
	}
	return s.log.Sync()
}

// Log returns the log of the store, for packages above the engine. It is the same until Close.
func (s *Store) Log() *seglog.Log { return s.log }

// ReadOnly reports whether the store was opened read-only.
func (s *Store) ReadOnly() bool { return s.opts.ReadOnly }
