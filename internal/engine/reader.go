package engine

import (
	"bytes"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A reader finds the entry of a key. All reads of one key go this way, whichever part of the entry
// and whichever moment they want:
//
//   - as the log has it. A dirty cell is written first; a value for memory alone is not seen;
//   - as an open map shows it: as the log has it, unless memory differs;
//   - at the moment when a view was opened;
//   - as the holder of the key's locks finds it.
//
// An expired entry does not exist: the error is ErrNotFound, as if it had never existed.
//
// A look at the present takes no lock as long as memory knows nothing of the key: the index is
// right then, and later changes come after the call began. When there is a cell, or the entry seems
// to have expired, the reader looks under the lock of the key: the entry may have got another
// deadline in between. The record is read afterwards, without the lock; it stays in its place while
// the caller is inside the gate.
type reader struct {
	store  *Store
	cells  *Cells     // of the open map that reads; nil for the log
	shared bool       // the value may be one that others have, too
	view   *View      // nil for now
	locked *lockedKey // of a caller that holds the locks, and is inside the gate
	hides  []Range    // that count as deleted
	takes  Takes      // of the caller, nil if it allows all
}

// Takes is called before a large value of so many bytes is joined in memory. After an error it is not joined.
type Takes func(bytes int64) error

// sight is the record that a reader finds under a key, or the value in memory in its place.
type sight struct {
	at      seglog.Address // of the record, 0 for none
	expiry  uint64         // the deadline, 0 for none; of a view it is known when the record has been read
	cell    *cache.Cell    // which holds the value
	encoded *cache.Encoded // the value in the form for the log
}

// asLogged returns the reader of the log.
func (s *Store) asLogged() reader { return reader{store: s} }

// asShown returns the reader of an open map.
func (c *Cells) asShown(shared bool) reader {
	return reader{store: c.owner.store, cells: c, shared: shared}
}

// asItWas returns the reader of the view.
func (v *View) asItWas() reader { return reader{store: v.store, view: v} }

// use enters the gate, once, and leave leaves it.
func (r *reader) use() (pass, error) {
	switch {
	case r.locked != nil:
		return 0, nil
	case r.view != nil:
		return r.view.use()
	}
	return r.store.use()
}

func (r *reader) leave(in pass) {
	if r.locked == nil {
		r.store.life.leave(in)
	}
}

// cellOf returns the cell of a key, nil for none. It takes no lock.
func (r *reader) cellOf(t *Table, hash uint64, key []byte) *cache.Cell {
	r.store.await(hash)
	c := r.cells
	if c == nil {
		c = t.cells.Load()
	}
	if c == nil {
		return nil
	}
	return c.table.Find(hash, t.ownOf(key))
}

// glance looks at the cell of a key without a lock. seen means that the reader needs no more, and known that
// the index alone does not suffice.
func (r *reader) glance(f *sight, t *Table, hash uint64, key []byte) (known, seen bool) {
	if r.locked != nil || r.view != nil {
		return r.view != nil, false
	}
	cell := r.cellOf(t, hash, key)
	if cell == nil {
		return false, false
	}
	if seen = r.gives(cell) && !r.store.Expired(cell.Expiry); seen {
		f.cell, f.expiry = cell, cell.Expiry
	}
	return true, seen
}

// gives reports whether the reader may have the value that the cell holds.
func (r *reader) gives(c *cache.Cell) bool {
	return r.cells != nil && c.Holds && (r.shared || c.Memory)
}

// find finds the record of a key, and reads no more of it than the key. It does not check whether
// the entry of a view has expired. The caller is inside the gate.
func (r *reader) find(f *sight, t *Table, hash uint64, key []byte) error {
	*f = sight{}
	if r.hidden(t, key) {
		return ErrNotFound
	}
	switch known, seen := r.glance(f, t, hash, key); {
	case seen:
		return nil
	case !known:
		h, err := t.find(hash, key)
		if err != nil {
			return err
		}
		if r.locked != nil || !r.store.Expired(h.expiry) {
			f.at, f.expiry = h.address, h.expiry
			return f.err()
		}
	}
	return r.place(f, t, hash, key, 0)
}

// hidden reports whether a key counts as deleted. Elements have keys of their own.
func (r *reader) hidden(t *Table, key []byte) bool {
	return len(r.hides) > 0 && !t.ofElements && hasRange(r.hides, key)
}

// err returns ErrNotFound for an empty sight.
func (f *sight) err() error {
	if f.at == 0 && f.cell == nil && f.encoded == nil {
		return ErrNotFound
	}
	return nil
}

// record is find, and reads the record of any kind into e, whose bytes are in buf if that is large enough;
// without one they are e's own. When memory has the value, e is empty.
func (r *reader) record(e *seglog.Record, f *sight, t *Table, hash uint64, key, buf []byte) (err error) {
	*f = sight{}
	if r.hidden(t, key) {
		return ErrNotFound
	}
	if r.locked != nil {
		f.at, err = r.locked.entry(e, t, hash, key, buf)
		f.expiry = e.Expiry
		return errOr(err, f.err())
	}
	if known, seen := r.glance(f, t, hash, key); seen {
		return nil
	} else if !known {
		if f.at, err = t.readNow(e, hash, key, buf); err != nil {
			return err
		}
		if f.expiry = e.Expiry; f.at == 0 || !r.store.Expired(e.Expiry) {
			return f.err()
		}
	}
	if err = r.place(f, t, hash, key, 0); err != nil {
		*e = seglog.Record{}
		return err
	}
	return r.read(e, f, key, buf)
}

// again is record for a key whose record, which is in e, was at a a moment ago.
func (r *reader) again(e *seglog.Record, f *sight, t *Table, a seglog.Address) (err error) {
	*f = sight{}
	hash := t.hash(e.Key)
	if known, seen := r.glance(f, t, hash, e.Key); seen {
		return nil
	} else if !known {
		still, err := t.index.Has(hash, a)
		if err != nil {
			return err
		}
		if still && !r.store.Expired(e.Expiry) {
			f.at, f.expiry = a, e.Expiry
			return nil
		}
	}
	if err = r.place(f, t, hash, e.Key, a); err != nil {
		return err
	}
	if f.at != a {
		return r.read(e, f, bytes.Clone(e.Key), nil)
	}
	return r.alive(e, f)
}

// read reads the record that was found, if memory does not have the value.
func (r *reader) read(e *seglog.Record, f *sight, key, buf []byte) (err error) {
	if f.at == 0 {
		return nil
	}
	slot, offset := seglog.SplitAddress(f.at)
	seg := r.store.log.Segment(slot)
	if buf == nil && seg.CopyInPlace(e, offset, r.store.opts.Clock) {
		e.Key = key // which parts are compared with
	} else if err = seg.ReadTo(e, offset, buf); err != nil {
		return err
	}
	return r.alive(e, f)
}

// alive sets f.expiry, and returns ErrNotFound if the record had expired in the view. One found now was alive.
func (r *reader) alive(e *seglog.Record, f *sight) error {
	if f.expiry = e.Expiry; r.view != nil && r.view.expired(e.Expiry) {
		*e, *f = seglog.Record{}, sight{}
		return ErrNotFound
	}
	return nil
}

// place finds the entry of a key, under its lock. near is its address in the index a moment ago, 0 for unknown.
func (r *reader) place(f *sight, t *Table, hash uint64, key []byte, near seglog.Address) error {
	mu := r.store.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	if r.view != nil {
		return r.view.placeLocked(f, r.cells, t, hash, key, near)
	}
	var now state
	if err := r.store.readLocked(&now, t, hash, key); err != nil {
		return err
	}
	if r.store.Expired(now.expiry) {
		return ErrNotFound
	}
	if r.cells != nil && r.cells != now.cells { // the map was closed, and the present cells have values of another type
		return seglog.ErrClosed
	}
	if r.cells == nil {
		if err := r.store.logLocked(&now, t, key); err != nil {
			return f.unwritten(&now, err)
		}
	}
	return r.see(f, &now)
}

// see turns a state into the sight of the reader.
func (r *reader) see(f *sight, now *state) error {
	switch c := now.cell; {
	case r.cells == nil:
		f.at = now.address
	case c != nil && c.Absent:
		return ErrNotFound
	case c != nil && r.gives(c):
		f.cell = c
	case now.encoded != nil:
		f.encoded = now.encoded
	default:
		f.at = now.address
	}
	f.expiry = now.expiry
	return f.err()
}

// unwritten returns a dirty entry that could not be written to the log: a full disk or a failed log must not
// prevent reads. Without one it returns the reason.
func (f *sight) unwritten(now *state, reason error) error {
	c := now.cell
	switch {
	case c == nil || !c.Dirty:
		return reason
	case c.Absent:
		return ErrNotFound
	}
	f.expiry = c.Expiry
	if f.encoded = now.encoded; f.encoded != nil {
		return nil
	}
	value, schema, err := now.cells.values.Encode([]byte{}, c)
	f.encoded = &cache.Encoded{Value: value, Schema: schema}
	return err
}

// placeLocked finds the place of a key's record in the view, expired or not, or the cell, among those of an
// open map, that has its value. The caller has entered with use, and holds the key's lock.
func (v *View) placeLocked(f *sight, cells *Cells, t *Table, hash uint64, key []byte, near seglog.Address) (err error) {
	a, changed := t.versionShard(int(hash%cache.Shards)).at(hash, t.ownOf(key), v)
	if !changed {
		if a, err = v.unchangedLocked(f, cells, t, hash, key, near); err != nil {
			return err
		}
	}
	if f.at = a; f.at == 0 && f.cell == nil {
		err = ErrNotFound
	}
	return errOr(v.failure(), err) // when it has been closed meanwhile, the versions may have gone
}

// unchangedLocked is placeLocked for a key that has not changed since the view was opened.
func (v *View) unchangedLocked(f *sight, cells *Cells, t *Table, hash uint64, key []byte, near seglog.Address) (seglog.Address, error) {
	if c := t.cells.Load(); c != nil {
		if cell := c.table.Find(hash, t.ownOf(key)); cell != nil {
			if c == cells && cell.Holds && !cell.Dirty && !cell.Memory {
				if v.expired(cell.Expiry) {
					return 0, nil
				}
				f.cell, f.expiry = cell, cell.Expiry
				return 0, nil
			}
			return cell.Address, nil
		}
	} else if near != 0 {
		if still, err := t.index.Has(hash, near); err != nil || still {
			return near, err
		}
	}
	h, err := t.find(hash, key)
	return h.address, err
}

// tableOf returns t or, when it is nil, the table of the key.
func (r *reader) tableOf(t *Table, key []byte) *Table {
	if t == nil {
		t = r.store.spaces[0].route(record.Value, key)
	}
	return t
}

// get returns the entry of a value; its bytes are the caller's.
func (r *reader) get(t *Table, key []byte) (out Entry, err error) {
	in, err := r.use()
	if err != nil {
		return out, err
	}
	defer r.leave(in)
	t = r.tableOf(t, key)
	var e seglog.Record
	var f sight
	if err = r.record(&e, &f, t, t.hash(key), key, nil); err == nil {
		if f.encoded != nil {
			f.encoded = &cache.Encoded{Value: bytes.Clone(f.encoded.Value), Schema: f.encoded.Schema}
		}
		err = r.entryTo(&out, &e, &f)
	}
	return out, err
}

// entryTo is Store.entryTo that calls takes first.
func (r *reader) entryTo(out *Entry, e *seglog.Record, f *sight) error {
	if e.Large > 0 && r.takes != nil {
		if err := r.takes(int64(e.Large)); err != nil {
			return err
		}
	}
	return r.store.entryTo(out, e, f)
}

// deadline returns the deadline of an entry of any kind, 0 for none.
func (r *reader) deadline(t *Table, key []byte) (uint64, error) {
	in, err := r.use()
	if err != nil {
		return 0, err
	}
	defer r.leave(in)
	t = r.tableOf(t, key)
	var e seglog.Record
	var f sight
	err = r.find(&f, t, t.hash(key), key)
	if err == nil && r.view != nil {
		err = r.read(&e, &f, key, nil)
	}
	return f.expiry, err
}

// value reads the record of a value. The caller is inside the gate.
func (r *reader) value(key []byte) (e seglog.Record, err error) {
	t := r.tableOf(nil, key)
	var f sight
	if err = r.record(&e, &f, t, t.hash(key), key, nil); err != nil {
		return e, err
	}
	if f.encoded != nil { // the log refuses this value
		return seglog.Record{Head: record.Head{Op: record.Set, Schema: f.encoded.Schema, Expiry: f.expiry}, Key: key, Value: bytes.Clone(f.encoded.Value)}, nil
	}
	return e, isValue(&e)
}

// has reports whether there is an entry of any kind.
func (r *reader) has(t *Table, key []byte) (bool, error) {
	in, err := r.use()
	if err != nil {
		return false, err
	}
	defer r.leave(in)
	t = r.tableOf(t, key)
	var f sight
	err = r.find(&f, t, t.hash(key), key)
	if err == nil && r.view != nil {
		var e seglog.Record
		err = r.read(&e, &f, key, nil)
	}
	if err == ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

// item returns the item of an iteration for the sight of a key, which becomes the caller's; ok is false for
// none.
func (r *reader) item(key []byte, e *seglog.Record, f *sight, values bool, err error) (item Item, ok bool) {
	switch {
	case err == ErrNotFound:
		return Item{}, false
	case err != nil:
		return Item{Err: err}, true
	}
	item.Key = bytes.Clone(key)
	if values || f.at == 0 {
		item.Err = r.entryTo(&item.Entry, e, f)
	} else {
		item.Entry = Entry{Schema: e.Schema, Seq: e.Seq, hit: hit{expiry: e.Expiry}}
	}
	return item, true
}

// entryTo makes the entry that users see: the parts of a large value are joined. A collection is no value.
func (s *Store) entryTo(out *Entry, e *seglog.Record, f *sight) (err error) {
	switch {
	case f.cell != nil:
		*out = Entry{Cell: f.cell}
		return nil
	case f.encoded != nil:
		*out = Entry{Value: f.encoded.Value, Schema: f.encoded.Schema}
		return nil
	}
	out.Value, out.Schema, out.Type, out.Seq, out.Cell = e.Value, e.Schema, e.Type, e.Seq, nil
	out.Time = time.UnixMilli(int64(e.Written))
	out.hit = hitOf(f.at, &e.Head, e.Bytes)
	if e.Large > 0 {
		out.Value, err = seglog.ReadParts(s.log, *e)
	}
	if err == nil {
		err = isValue(e)
	}
	return err
}

// readNow is Table.read that first tries to read the record in place, and then copies no more than its value.
func (t *Table) readNow(e *seglog.Record, hash uint64, key, buf []byte) (at seglog.Address, err error) {
	var ok bool
	if at, ok, err = t.copyInPlace(e, hash, key, buf); !ok && err == nil {
		at, err = t.read(e, hash, key, buf)
	}
	return at, err
}

// copyInPlace is Table.read for a record that can be read in place and has no parts. Its value is put into buf,
// or into memory of its own when there is none. ok is false for other records, for one that does not fit, and
// for none.
func (t *Table) copyInPlace(e *seglog.Record, hash uint64, key, buf []byte) (at seglog.Address, ok bool, err error) {
	defer vfs.Caught(vfs.Catch(), nil, &err)
	if at, ok, err = t.readInPlace(e, hash, key); !ok || err != nil {
		return 0, false, err
	}
	e.Key = key
	switch {
	case buf == nil:
		e.Value = append(make([]byte, 0, len(e.Value)), e.Value...)
	case len(e.Value) > len(buf):
		return 0, false, nil
	default:
		e.Value = buf[:copy(buf, e.Value)]
	}
	return at, true, nil
}
