package seglog

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"

	"github.com/copaldb/copal/internal/vfs"
)

var _ = [1]struct{}{}[tail.DrainEvery-logtest.DrainTimer] // they are the same

// A logbook is a log with the least that is needed to read records back: for each key the place of
// its last record.
type logbook struct {
	*Log
	readOnly bool
	dirLock  io.Closer
	torn     int64 // bytes that recovery did not count
	stop     chan struct{}
	keepers  sync.WaitGroup

	noteMu sync.Mutex
	places map[string]noted // guarded by noteMu
	told   []error          // errors that the log has reported; guarded by noteMu
}

// noted is the place of the last record of a key, and the number from which it counts.
type noted struct {
	seq     uint64
	address Address // 0 when it is a deletion
}

// logSettings say how a logbook is opened.
type logSettings struct {
	Options
	readOnly bool
	interval time.Duration // of periodic syncs, 1 s
}

// inline is without goroutines, and with a ring that is so small that records go round it, and some are too
// long for it.
func inline(o *logSettings) { o.Inline, o.RingBytes = true, logtest.TestRing }

// readsOnly is beside a writer.
func readsOnly(o *logSettings) { o.readOnly = true }

// openLog opens the log in the directory db.
func openLog(fsys vfs.FS, change ...func(*logSettings)) (*logbook, error) {
	o := logSettings{interval: time.Second, Options: Options{
		FS: fsys, Dir: "db", Clock: clock.System{}, Random: rand.Uint64, SegmentBytes: DefaultSegmentBytes, RingBytes: DefaultRingBytes,
		Filled: func() {}, ShortOfRoom: func(int64) {},
	}}
	for _, f := range change {
		f(&o)
	}
	for looks := (Looks{}); ; {
		b, err := o.open()
		if err == nil || !o.readOnly || !errors.Is(err, ErrCorrupt) || !looks.Again(err) {
			return b, err
		}
	}
}

func (o logSettings) open() (_ *logbook, err error) {
	b := &logbook{readOnly: o.readOnly, places: map[string]noted{}}
	o.Report = b.reported
	b.Log = NewLog(o.Options)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.letGo())
		}
	}()
	if !o.readOnly {
		if b.dirLock, err = LockDir(o.FS, o.Dir); err != nil {
			return nil, err
		}
	}
	b.CacheID = o.FS.CacheID(o.Dir) // now that the directory is there
	r := NewRecovery(b.Log, b.replayed)
	r.ReadOnly, r.Began = o.readOnly, func(uint64) {}
	if err := r.Run(); err != nil {
		return nil, err
	}
	b.torn = r.Torn
	if !o.readOnly && !o.Inline {
		b.stop = make(chan struct{})
		b.SettleSoon()
		b.keepers.Go(func() { b.Keep(o.interval, b.stop) })
		b.keepers.Go(func() { b.KeepDrained(o.interval, b.stop) })
	}
	return b, nil
}

func (b *logbook) reported(err error) {
	b.noteMu.Lock()
	defer b.noteMu.Unlock()
	b.told = append(b.told, err)
}

func (b *logbook) reports() []error {
	b.noteMu.Lock()
	defer b.noteMu.Unlock()
	return slices.Clone(b.told)
}

// replayed notes a record that recovery has read.
func (b *logbook) replayed(e Record, a Address) error {
	if e.Kind == record.Value && e.Space == 0 && e.Op != record.Part {
		b.note(string(e.Key), e.Op, e.Seq, a)
	}
	return nil
}

func (b *logbook) note(key string, op record.Op, seq uint64, a Address) {
	b.noteMu.Lock()
	defer b.noteMu.Unlock()
	if op == record.Delete {
		a = 0
	}
	if b.places[key].seq <= seq {
		b.places[key] = noted{seq, a}
	}
}

// line is the record that sets a key.
func line(key, value string) *Pending {
	return &Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: []byte(key), Value: []byte(value)}
}

// erasure is the record that deletes a key.
func erasure(key string) *Pending {
	return &Pending{Head: record.Head{Op: record.Delete, Kind: record.Value}, Key: []byte(key)}
}

// put appends a record, and syncs it if durable.
func (b *logbook) put(p *Pending, durable bool) error {
	p.Synced, p.Shows = durable, true
	if err := b.Append(p); err != nil {
		return err
	}
	b.note(string(p.Key), p.Op, p.Seq, p.Address)
	b.Shown.Add(1)
	if !durable {
		return nil
	}
	return b.SyncTo(p.Seq)
}

func (b *logbook) setKey(key, value string) error  { return b.put(line(key, value), false) }
func (b *logbook) setSync(key, value string) error { return b.put(line(key, value), true) }
func (b *logbook) deleteKey(key string) error      { return b.put(erasure(key), false) }

// setTogether sets the keys in one group.
func (b *logbook) setTogether(lines ...*Pending) error {
	g := &Group{Log: b.Log}
	defer g.End()
	seq, err := g.Commit(lines...)
	if err != nil {
		return err
	}
	for _, p := range lines {
		b.note(string(p.Key), p.Op, seq, p.Address)
	}
	b.Shown.Add(1)
	return nil
}

// errGone says that a key has no record, or that the last one is a deletion.
var errGone = errors.New("there is no such key")

// read reads the last record of a key.
func (b *logbook) read(key string) (Record, error) {
	b.noteMu.Lock()
	at := b.places[key].address
	b.noteMu.Unlock()
	if at == 0 {
		return Record{}, errGone
	}
	slot, offset := SplitAddress(at)
	return b.Segment(slot).Read(offset, nil)
}

// keys are those that have a value, in order.
func (b *logbook) keys() []string {
	b.noteMu.Lock()
	defer b.noteMu.Unlock()
	there := maps.Clone(b.places)
	maps.DeleteFunc(there, func(_ string, n noted) bool { return n.address == 0 })
	return slices.Sorted(maps.Keys(there))
}

// segments are those of the log, as it runs.
func (b *logbook) segments() []*Segment { return b.Readable() }

// sync returns when everything is durable that was written before the call.
func (b *logbook) sync() error {
	if err := b.Failure(); err != nil {
		return err
	}
	return b.SyncTo(b.Last())
}

func (b *logbook) close() error {
	if b.stop != nil {
		close(b.stop)
		b.keepers.Wait()
		b.stop = nil
	}
	b.EndWaiting()
	return errors.Join(b.Finish(nil), b.letGo())
}

// letGo closes the open files.
func (b *logbook) letGo() error {
	err := b.Release()
	if b.dirLock != nil {
		err = errors.Join(err, b.dirLock.Close())
	}
	return err
}

// mustLog opens a log without goroutines.
func mustLog(t testing.TB, fsys vfs.FS, change ...func(*logSettings)) *logbook {
	t.Helper()
	b, err := openLog(fsys, append([]func(*logSettings){inline}, change...)...)
	if err != nil {
		t.Fatalf("opening the log: %v", err)
	}
	return b
}

func closeLog(t testing.TB, b *logbook) {
	t.Helper()
	if err := b.close(); err != nil {
		t.Fatalf("closing the log: %v", err)
	}
}

func syncLog(t testing.TB, b *logbook) {
	t.Helper()
	if err := b.sync(); err != nil {
		t.Fatalf("syncing the log: %v", err)
	}
}

func setIn(t testing.TB, b *logbook, key, value string) {
	t.Helper()
	if err := b.setKey(key, value); err != nil {
		t.Fatalf("setting %q: %v", key, err)
	}
}

func setSyncIn(t testing.TB, b *logbook, key, value string) {
	t.Helper()
	if err := b.setSync(key, value); err != nil {
		t.Fatalf("setting %q durably: %v", key, err)
	}
}

func wantIn(t testing.TB, b *logbook, key, want string) {
	t.Helper()
	if e, err := b.read(key); err != nil || string(e.Value) != want || string(e.Key) != key {
		t.Fatalf("%q is read as %.100q, %v, want %.100q", key, e.Value, err, want)
	}
}

func wantGone(t testing.TB, b *logbook, key string) {
	t.Helper()
	if e, err := b.read(key); err != errGone {
		t.Fatalf("%q is read as %.100q, %v, and should not be there", key, e.Value, err)
	}
}

// wantAll demands exactly these values.
func wantAll(t testing.TB, b *logbook, want map[string]string) {
	t.Helper()
	for key, value := range want {
		wantIn(t, b, key, value)
	}
	if keys := b.keys(); len(keys) != len(want) {
		t.Fatalf("%d keys, want %d", len(keys), len(want))
	}
}
