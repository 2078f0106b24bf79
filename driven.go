package copal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/store"
)

// driven is behind the handles of a store that has a driver in the place of the engine.
type driven struct {
	driver  driver.Driver // or a session
	ctx     context.Context
	refusal error // of writes, nil if they are taken
	tx      *farTx
}

// drives returns the driver, nil for the engine.
func (db *DB) drives() driver.Driver {
	d, _ := db.driver.(driver.Driver)
	return d
}

func (b driven) writable(d engine.Durability) error {
	switch {
	case b.refusal != nil:
		return b.refusal
	case d == engine.Memory && b.tx == nil:
		return unsupported("entries in memory alone")
	case b.tx != nil:
		return txTakes(d, b.tx.by)
	}
	return nil
}

// OpenDriven opens a store whose entries are all the driver's. It is for package remote, which has
// the drivers. Options that concern files, memory or the log have no effect. Calls that the driver
// does not have return errors.ErrUnsupported.
func OpenDriven(d driver.Driver, opts ...Option) (*DB, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	db := newDB(store.Without(unsupported("log"), c.engine(engine.Options{OnError: c.onError})), c)
	db.driver = d
	opened.Driver.Store(&driverOf)
	if s, ok := d.(driver.Schemas); ok {
		db.renders.Store = s
	}
	return db, nil
}

// unsupported says what a driver does not have.
func unsupported(what string) error {
	return fmt.Errorf("copal: the driver of this store has no %s: %w", what, errors.ErrUnsupported)
}

func tooLong(key []byte) error { return fmt.Errorf("%w: a key of %d bytes", ErrTooLarge, len(key)) }

func (b driven) get(_ *place, key []byte) (engine.Entry, error) {
	e, err := b.driver.Get(b.ctx, key, false)
	return entryOf(&e), err
}

// decoded is what a map has made of an entry that the driver keeps.
type decoded struct {
	by   *mapCore
	cell *cache.Cell
}

// readFrom is read of another backend than the engine.
func (m *bareMap) readFrom(key *buffer, e *engine.Entry) (err error) {
	b, _ := m.from.(driven)
	c, is := b.driver.(driver.Caching)
	if !is {
		*e, err = m.from.get(&m.place, key.key)
		return err
	}
	found, made, err := c.GetKept(b.ctx, key.key)
	*e = entryOf(&found)
	if err != nil || made == nil {
		return err
	}
	d, _ := made.Load().(*decoded)
	if d == nil || d.by != m.mapCore {
		d = &decoded{m.mapCore, m.newCell()}
		if err := m.values.decode(key.key, e, m.valueIn(d.cell)); err != nil {
			return err
		}
		d.cell.Holds = true
		made.Store(d)
	}
	e.Cell = d.cell
	return nil
}

// entryOf is an entry of a driver as the engine has entries.
func entryOf(e *driver.Entry) engine.Entry {
	entry := engine.EntryOf(e.Value, e.Deadline)
	entry.Schema = e.Schema
	return entry
}

func (b driven) collections(of engine.CollectionType) driver.Collections {
	all, ok := b.driver.(driver.Collections)
	switch {
	case !ok:
		return driver.Refused{Err: unsupported("collections")}
	case of == engine.StreamType: // which drivers have for copies alone
		return driver.Refused{Err: unsupported("streams")}
	}
	return all
}

func (b driven) has(_ *place, key []byte) (bool, error) { return b.driver.Has(b.ctx, key) }

func (b driven) deadlineOf(_ *place, key []byte) (uint64, error) {
	return b.driver.Deadline(b.ctx, key)
}

func (b driven) len(at *place) (int, error) { return b.driver.Len(b.ctx, at.prefix) }

func (b driven) items(at *place, values bool) iter.Seq[engine.Item] {
	return itemsOf(b.driver.Entries(b.ctx, at.prefix, values))
}

func (b driven) inOrder(at *place, by keycodec.Order, span engine.Span, values bool) iter.Seq[engine.Item] {
	return b.sorted(keyrange.Sorted(at.prefix, by, span), span.Down, values)
}

func (b driven) scan(span engine.Span, values bool) iter.Seq[engine.Item] {
	return b.sorted(keyrange.Keys(span), span.Down, values)
}

// drivenMaps yields the maps of a store on another machine.
func (db *DB) drivenMaps(yield func(string, int) bool) error {
	d, ok := db.driver.(interface {
		driver.Driver
		driver.Maps
	})
	if !ok {
		return unsupported("list of its maps")
	}
	ctx := context.Background()
	names, err := d.Maps(ctx)
	slices.Sort(names)
	for _, name := range names {
		n, err := d.Len(ctx, MapPrefix(name))
		if err != nil {
			return err
		}
		if !yield(name, n) {
			return nil
		}
	}
	return err
}

func (b driven) sorted(r engine.Range, down, values bool) iter.Seq[engine.Item] {
	d, ok := b.driver.(driver.Sorted)
	if !ok {
		return refused{unsupported("order of keys")}.item
	}
	return itemsOf(d.InOrder(b.ctx, r, down, values))
}

func itemsOf(entries iter.Seq2[driver.Entry, error]) iter.Seq[engine.Item] {
	return func(yield func(engine.Item) bool) {
		for e, err := range entries {
			item := engine.Item{Key: e.Key, Entry: entryOf(&e), Err: err}
			if err == nil && e.Type != "" {
				item.Err = &engine.CollectionError{Key: e.Key, Type: string(e.Type)}
			}
			if !yield(item) {
				return
			}
		}
	}
}

func (b driven) write(_ *place, w *engine.Write) (existed bool, err error) { return b.writeIf(w, nil) }

func (b driven) writeIf(w *engine.Write, now *driver.Entry) (existed bool, err error) {
	if err := b.writable(w.Durability); err != nil {
		return false, err
	}
	if len(w.Key) > MaxKeyBytes {
		return false, tooLong(w.Key)
	}
	return b.driver.Write(b.ctx, &driver.Write{Key: w.Key, Value: w.Value, Schema: w.Schema, Delete: w.Delete, Deadline: w.Expiry, Durability: w.Durability, If: now})
}

func (b driven) update(_ *place, key []byte, d engine.Durability, decide engine.Decide) error {
	if err := b.writable(d); err != nil {
		return err
	}
	return driver.Retry(func() error {
		now, err := b.driver.Get(b.ctx, key, true)
		if err != nil && !isNotFound(err) {
			return err
		}
		found := engine.Found{Exists: err == nil, Expiry: now.Deadline, Entry: entryOf(&now)}
		w := engine.Write{Key: key, Durability: d}
		if write, err := decide(found, &w); err != nil || !write || w.Delete && !found.Exists {
			return err
		}
		_, err = b.writeIf(&w, &now)
		return err
	})
}

func (b driven) redate(_ *place, key []byte, deadline uint64, d engine.Durability) error {
	if err := b.writable(d); err != nil {
		return err
	}
	return b.driver.Redate(b.ctx, key, deadline, d)
}

func (b driven) deleteRange(r engine.Range, d engine.Durability) error {
	if err := b.writable(d); err != nil {
		return err
	}
	return b.driver.DeleteRange(b.ctx, r, d)
}

// writeAll makes all writes of a batch, or none.
func (b driven) writeAll(changes []*engine.Change, d engine.Durability) error {
	list := make([]*driver.Write, len(changes))
	for i, c := range changes {
		if len(c.Key) > MaxKeyBytes {
			return tooLong(c.Key)
		}
		list[i] = &driver.Write{Key: c.Key, Value: c.Value, Schema: c.Schema, Delete: c.Delete, Deadline: c.Expiry, Durability: d}
	}
	return b.driver.WriteAll(b.ctx, list)
}

// Snapshots and transactions of a store with a driver are sessions of the driver. A handle of one reads and writes as
// any driven handle does, through the session.

// sessions is the driver's, or why it has none.
func (db *DB) sessions(what string) (driver.Sessions, error) {
	if s, ok := db.driver.(driver.Sessions); ok {
		return s, nil
	}
	return nil, unsupported(what)
}

func (db *DB) snapshotFar() (*Snapshot, error) {
	sessions, err := db.sessions("snapshots")
	if err != nil {
		return nil, err
	}
	s, err := sessions.Snapshot(context.Background())
	if err != nil {
		return nil, err
	}
	return db.taken(&Snapshot{db: db, view: db.store.NoView(), far: s}), nil
}

// farTx is a transaction in a session.
type farTx struct {
	session driver.Session
	by      engine.Durability
	refusal error // of writes
	done    atomic.Bool
	failed  error // of a read that could not return it
}

// backend is behind the handles of the transaction.
func (tx *farTx) backend(ctx context.Context) driven {
	return driven{driver: tx.session, ctx: ctx, refusal: tx.refusal, tx: tx}
}

func (tx *farTx) fail(err error) bool {
	if tx.done.Load() {
		return false
	}
	if tx.failed == nil {
		tx.failed = err
	}
	return true
}

// run calls f with a transaction in a session, and ends the session unless commit has done so.
func (db *DB) run(far *farTx, f func(*Tx) error, commit func() error) error {
	tx := &Tx{db: db, tx: db.store.NoTx(), far: far, by: far.by}
	defer far.session.Close()
	defer far.done.Store(true)
	if err := f(tx); err != nil {
		return err
	}
	if far.failed != nil {
		return far.failed
	}
	return commit()
}

func (db *DB) viewFar(f func(*Tx) error) error {
	sessions, err := db.sessions("transactions")
	if err != nil {
		return err
	}
	s, err := sessions.Begin(context.Background(), true)
	if err != nil {
		return err
	}
	return db.run(&farTx{session: s, refusal: ErrTxReadOnly}, f, func() error { return nil })
}

func (db *DB) updateFar(d engine.Durability, f func(*Tx) error) error {
	sessions, err := db.sessions("transactions")
	if err != nil {
		return err
	}
	ctx := context.Background()
	return driver.Retry(func() error {
		s, err := sessions.Begin(ctx, false)
		if err != nil {
			return err
		}
		return db.run(&farTx{session: s, by: d}, f, func() error { return s.Commit(ctx, d) })
	})
}

// farChange is a change that a driver has told.
type farChange struct {
	driver.Change
	old bool // of a watch with OldValues
}

// after is the entry, or element, after the change.
func (c *farChange) after() (*engine.Entry, error) {
	if c.ValueErr != nil {
		return nil, c.ValueErr
	}
	return &engine.Entry{Value: c.Value, Schema: c.Schema}, nil
}

// before is the entry before the change.
func (c *farChange) before() (*engine.Entry, error) {
	switch {
	case c.OldErr != nil:
		return nil, c.OldErr
	case !c.HasOld:
		return nil, ErrNotFound
	}
	return &engine.Entry{Value: c.Old, Schema: c.OldSchema}, nil
}

// watchFar is DB.Watch of a store with a driver.
func (db *DB) watchFar(ctx context.Context, w *watching) iter.Seq2[Change, error] {
	what := driver.Watching{Prefix: w.prefix, Key: w.key, Until: w.until, Old: w.old, Idle: w.idle}
	tells, is := db.driver.(driver.Feed)
	var err error
	switch {
	case !is:
		err = unsupported("feed of changes")
	case w.after != nil:
		what.After = *w.after
	default:
		what.After, err = tells.Now(ctx)
	}
	return func(yield func(Change, error) bool) {
		if err != nil {
			yield(Change{}, err)
			return
		}
		for c, err := range tells.Watch(ctx, what) {
			if err != nil {
				yield(Change{}, err)
				return
			}
			if !yield(db.farChange(&farChange{c, w.old}), nil) {
				return
			}
		}
	}
}

func (db *DB) farChange(f *farChange) Change {
	c := Change{Key: f.Key, To: f.To, Deleted: f.Deleted, Expired: f.Expired, Range: f.Range, Dropped: f.Dropped, Idle: f.Idle, More: f.More,
		Seq: f.Seq, Time: time.UnixMilli(int64(f.Time)), Collection: string(f.Collection), Element: f.Element, Created: f.Created, From: f.From, db: db, far: f}
	if f.Deadline != 0 {
		c.Deadline = time.UnixMilli(int64(f.Deadline))
	}
	return c
}
