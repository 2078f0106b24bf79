package engine

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A new deadline for an entry is a new record with the present value: for a large value, with the present
// parts. Only while compaction moves one of these are they written anew, as it looks for the record that lists
// a part only once.

// DeadlineOf returns the deadline of an entry, 0 for none: as the open map shows it or, when c is nil, as the log
// has it or will have it. The error is ErrNotFound when there is none.
func (s *Store) DeadlineOf(t *Table, c *Cells, key []byte) (uint64, error) {
	r := reader{store: s, cells: c, shared: true}
	return r.deadline(t, key)
}

// shownTo returns nil if there is an entry for an open map, or with nil in the log.
func (now *state) shownTo(c *Cells) error {
	switch {
	case c != nil && c != now.cells:
		return seglog.ErrClosed
	case c == nil && !now.logged(), c != nil && !now.exists():
		return ErrNotFound
	}
	return nil
}

// Expire gives an entry another deadline, 0 for none. A value in memory stays in memory. The errors
// are those of Write, and ErrNotFound when there is no entry in the sense of DeadlineOf.
func (s *Store) Expire(t *Table, c *Cells, key []byte, deadline uint64, d Durability) error {
	e := &renewal{table: t, of: c, key: key, deadline: deadline}
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	if err := (&Write{Key: e.key}).check(); err != nil {
		return err
	}
	if err := s.allow(e.key); err != nil {
		return err
	}
	seq, err := s.expire(e, d)
	s.pace()
	if err != nil || d != Power {
		return err
	}
	return s.log.SyncTo(seq)
}

// Expire gives an entry, which may be a collection, another deadline, 0 for none. The error is ErrNotFound when
// there is none.
func (tx *Tx) Expire(t *Table, c *Cells, key []byte, deadline uint64) error {
	e, err := tx.Get(t, key)
	switch {
	case IsCollection(err):
		return tx.Redate(key, "", deadline)
	case err != nil:
		return err
	}
	return tx.Write(t, &Write{Key: key, Value: e.Value, Schema: e.Schema, Type: e.Type, Expiry: deadline, Cells: c})
}

func (s *Store) expire(e *renewal, d Durability) (seq uint64, err error) {
	if e.table == nil {
		in, err := s.use()
		if err != nil {
			return 0, err
		}
		defer s.life.leave(in)
		e.table = s.spaces[0].route(record.Value, e.key)
	}
	hash := e.table.hash(e.key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	if s.closed {
		return 0, seglog.ErrClosed
	}
	if err := s.stateLocked(&e.state, e.table, hash, e.key); err != nil {
		return 0, err
	}
	if err := e.shownTo(e.of); err != nil {
		return 0, err
	}
	if err := s.log.Failure(); err != nil {
		return 0, err
	}
	return s.renewLocked(e, d)
}

// renewLocked gives the entry its new deadline. The caller has looked it up.
func (s *Store) renewLocked(e *renewal, d Durability) (seq uint64, err error) {
	cell, now := e.cell, &e.state
	switch {
	case e.expiry == e.deadline:
		if cell != nil && cell.Dirty && d != Async { // the present value must be as durable as the new deadline
			err = s.writeLocked(now.cells, []cache.Dirty{{Cell: cell, Encoded: now.encoded}})
		}
		return s.log.Last(), err
	case d == Async && (cell == nil || !cell.Memory) && now.cells != nil && now.schema != metaSchema && !s.budget.Over():
		done, err := s.expireLaterLocked(e)
		if done || err != nil {
			return 0, err
		}
	}
	if cell != nil && cell.Dirty {
		if err := s.writeLocked(now.cells, []cache.Dirty{{Cell: cell, Encoded: now.encoded}}); err != nil {
			return 0, err
		}
		e.hit, e.encoded = hitOfCell(cell), nil
	}
	return s.expireNowLocked(e)
}

// renewal is an entry that gets another deadline.
type renewal struct {
	state
	table    *Table // nil until it is known
	of       *Cells // of the open map that renews it, nil for the log's entry
	key      []byte
	deadline uint64
}

// copyOf returns a cell that replaces old.
func (e *renewal) copyOf(old *cache.Cell) *cache.Cell {
	c := &cache.Cell{}
	if old.Holds {
		c = e.cells.values.Copy(old)
		c.Holds = true
	}
	old.Renew(c)
	c.Expiry = e.deadline
	return c
}

// expireNowLocked appends the record again, with the new deadline.
func (s *Store) expireNowLocked(e *renewal) (seq uint64, err error) {
	old, err := s.readAt(e.address, nil)
	if err != nil {
		return 0, err
	}
	h := old.Head
	h.Expiry, h.Group = e.deadline, 0
	h.NotMoved()
	p := &seglog.Pending{Head: h, Key: e.key, Value: old.Value, Shows: true}
	if s.movesParts(&old) {
		defer s.log.EndParts(s.log.BeginParts())
		if err = s.log.Reserve(int64(old.Large)); err != nil {
			return 0, err
		}
		if p.Value, err = s.copyParts(&old, s.log.AppendOne); err != nil {
			return 0, err
		}
	}
	if err := s.appendFor(e.table, p); err != nil {
		return 0, err
	}
	now := hitOf(p.Address, &p.Head, p.Bytes)
	e.kept = true
	e.table.place(e.hash, e.own, e.hit, &now, e.cell != nil, p.Seq)
	if e.cell != nil {
		c := e.copyOf(e.cell)
		now.refer(c)
		e.swap(c)
	}
	s.log.Shown.Add(1)
	return p.Seq, nil
}

// expireLaterLocked leaves the record to the next flush. done is false if the value is a large one or has a content
// type, or while a view is being opened.
func (s *Store) expireLaterLocked(e *renewal) (done bool, err error) {
	if e.cells.table.Closed(e.hash) {
		return false, seglog.ErrClosed
	}
	var c *cache.Cell
	encoded := e.encoded
	if encoded == nil && (e.cell == nil || !e.cell.Dirty) {
		old, err := s.readAt(e.address, nil)
		if err != nil || old.Large > 0 || old.Type != "" {
			return false, err
		}
		encoded = &cache.Encoded{Value: append([]byte{}, old.Value...), Schema: old.Schema}
	}
	if !s.mayWait(&e.state) {
		return false, nil
	}
	if e.cell != nil {
		c = e.copyOf(e.cell)
	} else {
		c = &cache.Cell{Expiry: e.deadline}
		c.SetKey(strings.Clone(e.own), int(unsafe.Sizeof(*c)))
	}
	c.Dirty = true
	e.refer(c)
	e.table.expect(e.hash, e.expiry, e.deadline)
	e.swap(c)
	if encoded != nil {
		e.cells.table.Encode(e.hash, c, encoded)
	}
	s.log.Touched()
	return true, nil
}

// movesParts reports whether compaction moves a segment with a part that the record lists. It
// begins with no segment whose parts the holder of the key's lock is about to list again.
func (s *Store) movesParts(e *seglog.Record) bool {
	if e.Large == 0 {
		return false
	}
	return slices.ContainsFunc(strings.Split(string(e.Value), " ")[1:], func(word string) bool {
		id, _, err := seglog.ParsePlace(word)
		seg := s.log.ByID(id)
		return err != nil || seg == nil || s.compaction.Moves(seg)
	})
}
