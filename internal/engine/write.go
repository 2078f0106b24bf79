package engine

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// MaxKeyBytes is the length of the longest key, the map's name included.
const MaxKeyBytes = record.MaxKeyBytes

// Durability is the failure that a write has outlived when it is acknowledged.
type Durability int

const (
	Process Durability = iota // the process may die
	Power                     // the machine may, too
	Async                     // neither; the log has it within the sync interval
	Memory                    // the log never has it: it decorates an entry
)

// Write is a change of one entry.
type Write struct {
	Key    []byte
	Value  []byte      // encoded
	Schema uint64      // a number from SchemaNumber, or 0 for raw bytes
	Type   string      // of the content, or "" for none
	Expiry uint64      // from Deadline, or 0 for none; with Memory the entry's own
	Kind   record.Kind // of the record, 0 for a value
	Delete bool
	Later  bool // the value is in the Cell, and is encoded when it is written to the log; for Async only
	Durability

	// Cells are the cells of the open map that writes, or nil. Cell is their new cell of the entry; nil for
	// none, which only Process and Power allow. Cost is its size in bytes, with the value's.
	Cells *Cells
	Cell  *cache.Cell
	Cost  int
	Own   string // the key's own bytes if the cell may keep them in that memory, else ""

	Listed  uint64   // length of a value that is in the log in parts, which Value lists; 0 for any other
	version *version // that the entry must have; nil for any
}

// Set stores value under key, in table t or, when t is nil, where the key belongs. The schema is a
// number from SchemaNumber, or 0 for raw bytes. On return a read of any kind finds the value; an
// error means that nothing has changed, unless it is a *FailedError, after which that is not known.
func (s *Store) Set(t *Table, key, value []byte, schema uint64, d Durability) error {
	_, err := s.Write(t, &Write{Key: key, Value: value, Schema: schema, Durability: d})
	return err
}

// Delete removes key, from table t or, when t is nil, where it belongs. It reports whether it
// existed. If not, nothing is written.
func (s *Store) Delete(t *Table, key []byte, d Durability) (existed bool, err error) {
	return s.Write(t, &Write{Key: key, Delete: true, Durability: d})
}

// Write carries out w, and reports whether there was an entry before. Errors are those of Set. A
// write to a key from within its own update is refused.
func (s *Store) Write(t *Table, w *Write) (existed bool, err error) {
	_, existed, err = s.WriteNumbered(t, w)
	return existed, err
}

// WriteNumbered is Write that returns the number of the record, too, or of the last one if it has written none.
func (s *Store) WriteNumbered(t *Table, w *Write) (seq uint64, existed bool, err error) {
	if s.opts.ReadOnly {
		return 0, false, s.refuse(seglog.ErrReadOnly)
	}
	if err := w.check(); err != nil {
		return 0, false, err
	}
	if err := s.allow(w.Key); err != nil {
		return 0, false, err
	}
	seq, existed, err = s.writeOne(t, w)
	if err == nil && w.Durability == Power {
		err = s.log.SyncTo(seq)
	}
	return seq, existed, err
}

// Writable returns the error that any write of this goroutine would get now: in a read-only store, or from within a
// transaction by other means.
func (s *Store) Writable() error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	return s.transactions.allow()
}

// refuse returns err, or ErrClosed when the store is closed.
func (s *Store) refuse(err error) error {
	in, closed := s.use()
	if closed != nil {
		return closed
	}
	s.life.leave(in)
	return err
}

func (w *Write) check() error {
	if len(w.Key) > MaxKeyBytes {
		return fmt.Errorf("%w: a key of %d bytes, the most is %d", seglog.ErrTooLarge, len(w.Key), MaxKeyBytes)
	}
	return checkValue(w.Value)
}

func checkValue(value []byte) error {
	if int64(len(value)) > MaxValueBytes {
		return fmt.Errorf("%w: a value of %d bytes, the most is %d", seglog.ErrTooLarge, len(value), int64(MaxValueBytes))
	}
	return nil
}

// writeOne commits the write, if the entry is still the version that w wants. It returns the number
// up to which the log must be synced to make the outcome durable.
func (s *Store) writeOne(t *Table, w *Write) (seq uint64, existed bool, err error) {
	if w.Durability != Memory {
		s.pace()
	}
	if w.Durability == Async {
		if err := w.hasten(); err != nil {
			return 0, false, err
		}
	}
	p := seglog.Pending{Key: w.Key, Synced: w.Durability == Power}
	if len(w.Value) > seglog.PartBytes {
		under := s.log.BeginParts()
		defer func() { s.EndParts(under, err) }()
	}
	if w.Durability == Process || w.Durability == Power {
		if err := s.recordOfWrite(&p, w); err != nil {
			return 0, false, err
		}
	}
	if t == nil {
		in, err := s.use()
		if err != nil {
			return 0, false, err
		}
		defer s.life.leave(in) // no map may be declared meanwhile
		t = s.spaces[0].route(record.Value, w.Key)
	}
	hash := t.hash(w.Key)
	mu := s.lockOf(hash)
	mu.Lock()
	existed, err = s.writeOneLocked(t, hash, w, &p)
	mu.Unlock()
	if s.budget.Over() {
		s.relieve()
	}
	return p.Seq, existed, err
}

// hasten makes an asynchronous write of a large value a synchronous one: waiting only pays for small values.
func (w *Write) hasten() error {
	if w.Later && w.Cost > seglog.PartBytes {
		b, schema, err := w.Cells.values.Encode(nil, w.Cell)
		if err == nil {
			err = checkValue(b)
		}
		if err != nil {
			return err
		}
		w.Value, w.Schema, w.Later = b, schema, false
	}
	if len(w.Value) > seglog.PartBytes {
		w.Durability = Process
	}
	return nil
}

// recordOfWrite makes p the record of the write. A large value is appended in parts.
func (s *Store) recordOfWrite(p *seglog.Pending, w *Write) error {
	if !w.fill(p) {
		return nil
	}
	return s.appendParts(p, s.reserve, s.appendPart)
}

// fill makes p the record of the write, and reports whether the value may have to be appended in parts first.
func (w *Write) fill(p *seglog.Pending) (parts bool) {
	p.Kind, p.Op = w.kind(), record.Delete
	if w.Delete {
		return false
	}
	p.Op, p.Schema, p.Type, p.Expiry, p.Value = record.Set, w.Schema, w.Type, w.Expiry, w.Value
	p.Large = w.Listed
	return w.Listed == 0
}

// kind returns the kind of the record.
func (w *Write) kind() record.Kind {
	if w.Kind == 0 {
		return record.Value
	}
	return w.Kind
}

// lockOf returns the lock of the keys with this hash.
func (s *Store) lockOf(hash uint64) *keyLock { return &s.keys[hash%cache.Shards] }

func (s *Store) writeOneLocked(t *Table, hash uint64, w *Write, p *seglog.Pending) (existed bool, err error) {
	if s.closed {
		return false, seglog.ErrClosed
	}
	if w.Durability == Async && !w.Delete && s.budget.Over() {
		if err := s.makeRoomLocked(t, hash); err != nil {
			return false, err
		}
	}
	var now state
	if err := s.stateLocked(&now, t, hash, w.Key); err != nil && !s.replaceable(&now, w, err) {
		return false, err
	}
	switch {
	case w.Cells != nil && w.Cells != now.cells: // the present cells have values of another type
		return false, seglog.ErrClosed
	case w.version != nil && !w.version.is(&now):
		return false, errConflict
	}
	existed = now.exists()
	if w.Cells == nil { // a writer that sees only the log
		existed = now.logged()
	}
	switch {
	case w.Durability == Async:
		return existed, s.postponeLocked(&now, w, p)
	case w.Durability == Memory:
		return existed, s.rememberLocked(&now, w)
	case w.Delete && now.address == 0: // the log has none, either
		now.swap(nil)
		p.Seq = s.log.Last()
		return existed, s.log.Failure()
	}
	return existed, s.appendAndShowLocked(t, &now, w, p)
}

// appendAndShowLocked commits a single write.
func (s *Store) appendAndShowLocked(t *Table, now *state, w *Write, p *seglog.Pending) error {
	p.Shows = true
	if err := s.appendFor(t, p); err != nil {
		return err
	}
	s.enterLocked(t, now, w, p, p.Seq)
	s.log.Shown.Add(1)
	return nil
}

// enterLocked enters a write in index and cells. Its record is in the log, and counts by the number seq. A
// deletion is of an entry in the log.
func (s *Store) enterLocked(t *Table, now *state, w *Write, p *seglog.Pending, seq uint64) {
	if w.Delete || now.address == 0 || now.cell != nil && now.cell.Absent {
		s.showing.begin(now.hash)
		defer s.showing.end(now.hash)
	}
	if now.cell != nil && now.cell.Extra() != 0 {
		t.counted.begun.Add(1)
		defer t.counted.ended.Add(1)
	}
	if w.Delete {
		t.remove(now.hash, now.own, now.hit, seq)
		now.swap(nil)
		return
	}
	rec, cell := hitOf(p.Address, &p.Head, p.Bytes), now.prepare(w)
	t.place(now.hash, now.own, now.hit, &rec, cell != nil, seq)
	if cell != nil {
		cell.Expiry = w.Expiry
		rec.refer(cell)
	}
	now.swap(cell)
}

// state is the state of a key while its lock is held.
type state struct {
	hash  uint64
	own   string // the key's own bytes, valid while the lock is held
	cells *Cells // of the table, or nil
	cell  *cache.Cell
	hit   // in the log

	encoded *cache.Encoded // of a dirty cell
}

// replaceable reports whether an expired entry whose record cannot be read can be replaced or deleted, like any
// other damaged one.
func (s *Store) replaceable(now *state, w *Write, err error) bool {
	return errors.Is(err, seglog.ErrCorrupt) && s.Expired(now.expiry) && w.Durability != Memory
}

// stateLocked reads the state of a key. After an error of an expired entry, now has the state before.
func (s *Store) stateLocked(now *state, t *Table, hash uint64, key []byte) error {
	if err := s.lookLocked(now, t, hash, key); err != nil || !s.Expired(now.expiry) {
		return err
	}
	return s.expireLocked(t, now)
}

// lookLocked is stateLocked that leaves an entry in place whose deadline has passed.
func (s *Store) lookLocked(now *state, t *Table, hash uint64, key []byte) (err error) {
	*now = state{hash: hash, own: view(key[t.prefix:]), cells: t.cells.Load()}
	if now.cells != nil {
		if c := now.cells.table.Find(hash, now.own); c != nil {
			now.cell, now.hit, now.encoded = c, hitOfCell(c), now.cells.table.Encoded(hash, c)
			return nil
		}
	}
	now.hit, err = t.find(hash, key)
	return err
}

// readLocked is stateLocked for a caller that writes nothing: an expired entry may still be there if its end
// must be written to the log.
func (s *Store) readLocked(now *state, t *Table, hash uint64, key []byte) error {
	if err := s.lookLocked(now, t, hash, key); err != nil || !s.Expired(now.expiry) || t.tells(now) {
		return err
	}
	return s.expireLocked(t, now)
}

func (now *state) exists() bool {
	if now.cell != nil {
		return !now.cell.Absent
	}
	return now.address != 0
}

// logged reports whether the log has an entry, or gets one by the next flush.
func (now *state) logged() bool {
	if now.cell != nil && now.cell.Dirty {
		return !now.cell.Absent
	}
	return now.address != 0
}

// swap replaces the cell by another one; either may be nil.
func (now *state) swap(cell *cache.Cell) {
	if cell != nil || now.cell != nil {
		now.cells.work.swap(now.cells, now.hash, now.cell, cell)
	}
}

func (c *Cells) swap(hash uint64, old, cell *cache.Cell) {
	if old.Extra() != cell.Extra() { // it comes or goes, and is counted before reads can see that
		showing := &c.owner.store.showing
		showing.begin(hash)
		defer showing.end(hash)
	}
	c.table.Swap(hash, old, cell)
}

// prepare makes of the write's cell one for the key, if memory keeps it.
func (now *state) prepare(w *Write) *cache.Cell {
	if w.Cell == nil || now.cells == nil {
		return nil
	}
	if now.cell == nil && !now.cells.budget.Admit(now.hash, w.Cost) {
		return nil
	}
	return now.fill(w)
}

// fill is prepare for a cell that memory keeps.
func (now *state) fill(w *Write) *cache.Cell {
	if now.cells.table.Closed(now.hash) || w.Schema > maxCellSchema {
		return nil
	}
	now.setKey(w)
	return w.Cell
}

// maxCellSchema is the greatest number that fits into a cell. Values, and so Weight, are shorter.
const maxCellSchema = 1<<32 - 1

// setKey gives the write's cell its key, in memory that it shares with the cell before, or with the caller.
func (now *state) setKey(w *Write) {
	key := w.Own
	switch {
	case now.cell != nil:
		key = now.cell.Key()
	case key == "":
		key = strings.Clone(now.own)
	}
	w.Cell.SetKey(key, w.Cost)
}

// appendFor appends records to the log, and before them, if need be, the one that declares the map.
// If only that is written, the write has not happened.
func (s *Store) appendFor(t *Table, recs ...*seglog.Pending) error {
	if err := s.declareFor(t); err != nil {
		return err
	}
	return s.log.Append(recs...)
}

// view returns b as a string, valid as long as b does not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// writeNowLocked appends w with durability Process. Only an entry that is logged can be deleted.
func (s *Store) writeNowLocked(now *state, w *Write, p *seglog.Pending) error {
	arena := arenas.Get().(*[]byte)
	defer giveArena(arena)
	if w.Later {
		b, schema, err := now.cells.values.Encode((*arena)[:0], w.Cell)
		if err == nil {
			err = checkValue(b)
		}
		if err != nil {
			return err
		}
		*arena, w.Value, w.Schema = b, b, schema
	}
	defer s.log.EndParts(s.log.BeginParts()) // the value may be a large one
	if w.fill(p) {
		if err := s.appendParts(p, s.log.Reserve, s.log.AppendOne); err != nil {
			return err
		}
	}
	if !w.Delete && !w.Cell.Holds {
		w.Cell = nil
	}
	return s.appendAndShowLocked(now.cells.owner, now, w, p)
}
