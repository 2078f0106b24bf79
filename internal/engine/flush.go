package engine

import (
	"errors"
	"slices"
	"sync"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A flush appends dirty cells, many at a time, and makes them clean. The keeper flushes once in each sync
// interval; so does a caller that is about to read the log, or that has no memory left for waiting cells.
//
// A value that cannot be stored after all concerns only itself. Memory forgets it, the record of its key in the
// log counts again, the error handler gets the error, and everything else is written. When the log has no room
// for more, the deletions are still written, for which a little is kept.

// flushed is the part that a flush has not written.
type flushed struct {
	lost    []*lostError // reported to the handler; returned also by callers that promise that all values were stored
	refused error        // the error at which the log stopped, nil if it has everything else
}

// err returns all of it.
func (f flushed) err() error {
	var errs []error
	for _, lost := range f.lost {
		errs = append(errs, lost)
	}
	return errors.Join(append(errs, f.refused)...)
}

// lostOf returns the error of one cell, nil if it was not lost.
func (f flushed) lostOf(c *cache.Cell) error {
	if i := slices.IndexFunc(f.lost, func(e *lostError) bool { return e.cell == c }); i >= 0 {
		return f.lost[i]
	}
	return nil
}

// lostError is the error of an asynchronous write that cannot be stored after all, and is
// forgotten.
type lostError struct {
	error
	cell *cache.Cell
}

func (e *lostError) Unwrap() error { return e.error }

// isLost reports whether an error of a call for one key concerns only lost values.
func isLost(err error) bool {
	_, lost := errors.AsType[*lostError](err)
	return lost
}

// Flush writes all dirty cells to the log: those of one map, or with nil of all.
func (s *Store) Flush(only *Cells) error {
	if only != nil {
		return s.flush(only).err()
	}
	return s.flushAll().err()
}

// flushAll is Flush of all maps.
func (s *Store) flushAll() (all flushed) {
	var refused []error
	for _, c := range *s.attached.Load() {
		f := s.flush(c)
		all.lost, refused = append(all.lost, f.lost...), append(refused, f.refused)
	}
	all.refused = errors.Join(refused...)
	return all
}

// flush is Flush of one map.
func (s *Store) flush(c *Cells) (all flushed) {
	for n := 0; n < cache.Shards && c.table.Dirty() > 0; n++ {
		mu := &s.keys[n]
		mu.Lock()
		if s.closed {
			all.refused = seglog.ErrClosed
		} else {
			c.work.flush(s, c, n, &all)
		}
		mu.Unlock()
		if all.refused != nil && !errors.Is(all.refused, seglog.ErrNoSpace) {
			break
		}
	}
	return all
}

// flushPeriodically is Flush for the log's keeper. It reports whether to try again after the next
// interval; the error is reported once.
func (s *Store) flushPeriodically() (again bool) {
	err := s.flushAll().refused
	switch {
	case err == nil || errors.Is(err, seglog.ErrClosed):
		s.flushTold = ""
		return false
	case err.Error() != s.flushTold:
		s.flushTold = err.Error()
		s.log.ReportError("writing asynchronous writes to the log", err)
	}
	return true
}

// endShardLocked is the last flush of a shard, one of several with the result last: unwritten cells are gone
// then. The caller holds its lock.
func (s *Store) endShardLocked(c *Cells, shard int, last *flushed) {
	c.work.flush(s, c, shard, last)
	c.table.Close(shard)
}

// flushNextLocked flushes one shard of several, as far as the log has taken the cells of those before.
func (s *Store) flushNextLocked(c *Cells, shard int, all *flushed) {
	switch {
	case all.refused == nil:
		f := s.flushLocked(c, shard)
		all.lost, all.refused = append(all.lost, f.lost...), f.refused
	case errors.Is(all.refused, seglog.ErrNoSpace):
		s.flushDeletionsLocked(c, shard)
	}
}

// makeRoomLocked writes the dirty cells in the shard of a key. An asynchronous write is refused when that
// is not possible, or memory would grow for as long as a disk is full.
func (s *Store) makeRoomLocked(t *Table, hash uint64) error {
	if c := t.cells.Load(); c != nil {
		return s.flushLocked(c, int(hash%cache.Shards)).refused
	}
	return nil
}

// logLocked writes a dirty cell of a state to the log, and reads the state again: the value may be lost.
func (s *Store) logLocked(now *state, t *Table, key []byte) error {
	if now.cell == nil || !now.cell.Dirty {
		return nil
	}
	err := s.writeLocked(now.cells, []cache.Dirty{{Cell: now.cell, Encoded: now.encoded}})
	if err != nil && !isLost(err) {
		return err
	}
	return s.stateLocked(now, t, now.hash, key)
}

// flushBatch is the number of cells written in one append, and flushBytes the length after which no
// more are added.
const (
	flushBatch = 64
	flushBytes = 256 << 10
)

// flushLocked writes the dirty cells of a shard, whose lock the caller holds.
func (s *Store) flushLocked(c *Cells, shard int) (f flushed) {
	var batch [flushBatch]cache.Dirty
	if f.refused = s.expireDirtyLocked(c, shard); f.refused != nil {
		return f
	}
	for {
		n := copy(batch[:], c.table.DirtyIn(shard))
		if n == 0 {
			return f
		}
		if s.appendDirtyLocked(c, batch[:n], &f); f.refused != nil {
			if errors.Is(f.refused, seglog.ErrNoSpace) {
				s.flushDeletionsLocked(c, shard)
			}
			return f
		}
	}
}

// flushDeletionsLocked writes the deletions of a shard when there is no room for all cells: a little is kept
// for them. It returns no error, as the caller has one.
func (s *Store) flushDeletionsLocked(c *Cells, shard int) {
	var gone []cache.Dirty
	for _, d := range c.table.DirtyIn(shard) {
		if d.Cell.Absent {
			gone = append(gone, d)
		}
	}
	var f flushed
	for len(gone) > 0 && f.refused == nil {
		n := min(len(gone), flushBatch)
		s.appendDirtyLocked(c, gone[:n], &f)
		gone = gone[n:]
	}
}

// arenas hold records on their way to the log.
var arenas = sync.Pool{New: func() any { return new([]byte) }}

// writeLocked writes dirty cells of one shard to the log. If some of them can never be stored, the
// error is an isLost; the others are clean. On any other error none, or the first few, are clean.
func (s *Store) writeLocked(c *Cells, cells []cache.Dirty) error {
	var f flushed
	if s.appendDirtyLocked(c, cells, &f); f.refused != nil {
		return f.refused
	}
	return f.err()
}

// appendDirtyLocked writes dirty cells of one shard to the log until it refuses, and notes in f the lost ones.
func (s *Store) appendDirtyLocked(c *Cells, cells []cache.Dirty, f *flushed) {
	defer s.log.EndParts(s.log.BeginParts()) // some of them may be large
	arena := arenas.Get().(*[]byte)
	defer giveArena(arena)
	for len(cells) > 0 && f.refused == nil {
		cells = s.appendSomeLocked(c, cells, arena, f)
	}
}

// appendSomeLocked writes as many cells as one append takes, and returns the others.
func (s *Store) appendSomeLocked(c *Cells, cells []cache.Dirty, arena *[]byte, f *flushed) (rest []cache.Dirty) {
	var recs [flushBatch]seglog.Pending
	var list [flushBatch]*seglog.Pending
	var of [flushBatch]*cache.Cell
	n, bytes := 0, 0
	*arena = (*arena)[:0]
	for n < flushBatch && len(cells) > 0 && bytes < flushBytes {
		d := cells[0]
		cells = cells[1:]
		err := s.recordOf(&recs[n], c, d, arena)
		lost, ok := errors.AsType[*lostError](err)
		switch {
		case ok:
			f.lost = append(f.lost, lost)
			continue
		case err != nil:
			f.refused = err
			return cells
		}
		bytes += len(recs[n].Key) + len(recs[n].Value)
		list[n], of[n] = &recs[n], d.Cell
		n++
	}
	if n == 0 {
		return cells
	}
	if f.refused = s.appendFor(c.owner, list[:n]...); f.refused != nil {
		return cells
	}
	for i, cell := range of[:n] {
		c.written(s, cell, &recs[i])
	}
	return cells
}

// recordOf makes p the record of a dirty cell. Key and value are put into the arena.
func (s *Store) recordOf(p *seglog.Pending, c *Cells, d cache.Dirty, arena *[]byte) error {
	cell := d.Cell
	start := len(*arena)
	b := append(append(append(*arena, c.owner.name...), ':'), cell.Key()...)
	key := b[start:len(b):len(b)]
	*p = seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value, Expiry: cell.Expiry}, Key: key}
	switch {
	case cell.Absent:
		if p.Op = record.Delete; cell.Expiry != 0 {
			p.Op = record.Expire
		}
	case d.Encoded != nil:
		p.Value, p.Schema = d.Encoded.Value, d.Encoded.Schema
	default:
		var err error
		start := len(b)
		if b, p.Schema, err = c.values.Encode(b, cell); err == nil {
			p.Value = b[start:len(b):len(b)]
			err = checkValue(p.Value)
		}
		if err != nil {
			return s.loseLocked(c, cell, err)
		}
	}
	*arena = b
	return s.appendParts(p, s.log.Reserve, s.log.AppendOne)
}

// loseLocked forgets a dirty cell that can be written neither now nor later.
func (s *Store) loseLocked(c *Cells, cell *cache.Cell, reason error) error {
	hash := s.Hash(cell.Key())
	s.showing.begin(hash) // an entry may go, or come back
	defer s.showing.end(hash)
	c.table.Drop(hash, cell)
	if c.owner.deadlines.Load() != nil {
		c.owner.expect(hash, 0, 1) // the record beneath counts again, and may have a deadline
	}
	s.log.ReportError("writing asynchronous writes to the log", reason)
	return &lostError{reason, cell}
}

// written enters the record of a dirty cell in the index, and makes the cell clean.
func (c *Cells) written(s *Store, cell *cache.Cell, p *seglog.Pending) {
	old, hash := hitOfCell(cell), s.Hash(cell.Key())
	if cell.Extra() != 0 {
		c.owner.counted.begun.Add(1)
		defer c.owner.counted.ended.Add(1)
	}
	if cell.Absent {
		c.owner.remove(hash, cell.Key(), old, p.Seq)
		c.table.Written(hash, cell, nil)
		return
	}
	now := hitOf(p.Address, &p.Head, p.Bytes)
	c.owner.place(hash, cell.Key(), old, &now, true, p.Seq)
	c.table.Written(hash, cell, now.refer)
}
