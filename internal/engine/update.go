package engine

import (
	"errors"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// An update reads an entry, lets a function decide, and commits the decision if the entry is still
// the one that was read; otherwise it begins again. The function runs without any lock, so it may
// use the store and may panic.
//
// After the first conflict the key has a queue (queue.go). Its updates, later ones too, then run one at a time in the
// order in which they came, and only plain writes can still come between.
//
// A write to the key from within its own update would be a conflict for ever. It succeeds the first time, when it is
// not checked. The second time the goroutine is known: the write is refused and the update ends, both with ErrNested.

// ErrNested is the error of a write to a key from within its own update.
var ErrNested = errors.New("copal: a write from within an update must use the argument of its function: the *Entry or, in a transaction, a handle such as m.In(tx)")

// Found is the entry that an update finds under a key.
type Found struct {
	Exists bool
	Expiry uint64 // its deadline, 0 for none
	Entry         // stored value, or the cell that has it; the bytes are not the caller's
}

// Decide is the function of an update. It fills in the write, except its key, and returns true, or
// false for no write. Its error ends the update.
type Decide func(found Found, w *Write) (write bool, err error)

// Update applies decide to the entry of key atomically, in table t or, when t is nil, where the key belongs.
// With the cells of an open map, decide gets the entry as that map shows it; the value is from its cell if own
// is true and the cell has one. Otherwise it gets the entry in the log. takes is as for AppendGet. decide may
// be called several times, and the last call counts. The errors are decide's and those of Write. It returns the
// number of the record that was written, or of the last of the log if none was.
func (s *Store) Update(t *Table, c *Cells, key []byte, own bool, d Durability, takes Takes, decide Decide) (uint64, error) {
	if s.opts.ReadOnly {
		return 0, s.refuse(seglog.ErrReadOnly)
	}
	if err := (&Write{Key: key}).check(); err != nil {
		return 0, err
	}
	if err := s.allow(key); err != nil {
		return 0, err
	}
	u := updating{table: t, cells: c, key: key, own: own, durability: d, takes: takes, decide: decide}
	var seq uint64
	err := s.queues.attempt(subject{key: view(key)}, func(head *turn) (err error) {
		u.head = head
		seq, err = s.tryUpdate(&u)
		return err
	})
	if err != nil || d != Power {
		return seq, err
	}
	return seq, s.log.SyncTo(seq)
}

// updating is an update under way.
type updating struct {
	table      *Table
	cells      *Cells
	key        []byte
	own        bool
	durability Durability
	decide     Decide
	takes      Takes
	head       *turn // the turn of this update, while it is in the queue of the key
}

// errConflict means that the entry has changed since it was read.
var errConflict = errors.New("the entry has changed")

// tryUpdate returns the number up to which the log must be synced to make the outcome durable.
func (s *Store) tryUpdate(u *updating) (uint64, error) {
	found, v, err := s.examine(u)
	if err != nil {
		return 0, err
	}
	w := Write{Key: u.key, Cells: u.cells, Durability: u.durability, version: &v}
	write, err := u.decide(found, &w)
	if u.head != nil && u.head.nested.Load() { // even if decide has ignored the refusal
		return 0, ErrNested
	}
	if err != nil {
		return 0, err
	}
	if !write || w.Delete && !found.Exists {
		return s.seen(u, &v) // which must be as durable as the write
	}
	if err := checkValue(w.Value); err != nil {
		return 0, err
	}
	seq, _, err := s.writeOne(u.table, &w)
	return seq, err
}

// seen ends an update that writes nothing.
func (s *Store) seen(u *updating, v *version) (uint64, error) {
	if v.special != nil && u.cells != nil && (u.durability == Process || u.durability == Power) {
		if err := s.writeSeen(u); err != nil {
			return 0, err
		}
	}
	return s.log.Last(), s.log.Failure()
}

// writeSeen writes a dirty cell of the key of an update to the log.
func (s *Store) writeSeen(u *updating) error {
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	hash := u.table.hash(u.key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	var now state
	if err := s.stateLocked(&now, u.table, hash, u.key); err != nil || now.cell == nil || !now.cell.Dirty {
		return err
	}
	return s.writeLocked(now.cells, []cache.Dirty{{Cell: now.cell, Encoded: now.encoded}})
}

// version identifies a state of an entry: by its record in the log and, while memory differs, by the cell.
type version struct {
	address seglog.Address
	special *cache.Cell
}

func (v *version) is(now *state) bool { return *v == now.version() }

func (now *state) version() version {
	if c := now.cell; c != nil && (c.Dirty || c.Memory) {
		return version{special: c}
	}
	return version{address: now.address}
}

// examine finds the entry of an update, and its version.
func (s *Store) examine(u *updating) (Found, version, error) {
	in, err := s.use()
	if err != nil {
		return Found{}, version{}, err
	}
	defer s.life.leave(in) // so that the record stays in its place
	t := u.table
	if t == nil {
		t = s.spaces[0].route(record.Value, u.key)
	}
	now, v, err := s.versionOf(t, u)
	if err != nil {
		return Found{}, v, err
	}
	var found Found
	r := reader{store: s, cells: u.cells, shared: u.own, takes: u.takes}
	var e seglog.Record
	var f sight
	if err = r.see(&f, &now); err == ErrNotFound {
		return found, v, nil
	}
	found.Exists, found.Expiry = true, f.expiry
	if err == nil {
		err = r.read(&e, &f, u.key, nil)
	}
	if err == nil {
		err = r.entryTo(&found.Entry, &e, &f)
	}
	return found, v, err
}

// versionOf returns the state of the entry, and its version. For an update of the log's entry it
// has no cell.
func (s *Store) versionOf(t *Table, u *updating) (state, version, error) {
	hash := t.hash(u.key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	var now state
	err := s.stateLocked(&now, t, hash, u.key)
	if err == nil && u.cells != nil && u.cells != now.cells {
		err = seglog.ErrClosed
	}
	if u.cells == nil && now.cell != nil {
		if err == nil {
			err = s.logLocked(&now, t, u.key)
		}
		v := now.version()
		now.cell = nil
		return now, v, err
	}
	return now, now.version(), err
}
