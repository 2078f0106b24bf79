package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/pairs"
)

// Undo writes the earlier entries again, as new records. So the log keeps the mistake, the undoing
// of it, and every state in between.
//
// One transaction compares the two snapshots. Each entry that differs, and still has the state of
// the later snapshot, gets its state from the earlier one. So all of it is undone or nothing, and
// any write meanwhile is a conflict, after which the transaction runs again.

// UndoReport is the result of Undo.
type UndoReport struct {
	Restored int64    // entries that have their earlier value, elements and deadline again
	Deleted  int64    // entries that were removed, because there were none then, or their deadline then has passed
	Expired  int64    // entries that had a deadline then which has passed since: there are none of them now
	Changed  [][]byte // keys of entries that Undo has not touched, because they have changed since the snapshot now
}

// Undo takes back the changes between two snapshots of db to the entries with keys in [from, to):
// the differences of Diff(then, now, from, to). nil is no bound. It is one transaction, as durable
// as Put, and made of new records: snapshots of earlier moments and History do not change.
//
// An entry that has changed since now is not touched, and is listed in UndoReport.Changed. Of a
// collection only the elements that differ are written, if none of these has changed.
//
// A deadline comes back as it was. If it has passed, the entry is gone, as if nothing had been written since then.
// A map that was dropped comes back with its types, if then is of DB.AsOf or DB.AsOfSeq. If it has been opened since
// with keys of another order, the error is copal.ErrType. A map that is new stays, without its entries.
//
// After an error no entry has changed, except for copal.ErrReadOnly after an I/O failure, as with
// Map.Set; but a dropped map may be declared again. Errors are those of DB.Update, the error of an
// entry that cannot be read, the end of the context, and copal.ErrHandle for a snapshot of another
// store. The entries that Undo writes are kept in memory meanwhile.
func Undo(ctx context.Context, db *copal.DB, then, now *copal.Snapshot, from, to []byte) (UndoReport, error) {
	store := opened.Engine(db)
	past, of := (*opened.View.Load())(then)
	if _, also := (*opened.View.Load())(now); of != store || also != store {
		return UndoReport{}, fmt.Errorf("%w: Undo: a snapshot is of another store", copal.ErrHandle)
	}
	if err := store.DeclareAs(past, engine.Span{Low: from, High: to, HighOpen: true}); err != nil {
		return UndoReport{}, err
	}
	var report UndoReport
	err := store.Transact(engine.Process, func(tx *engine.Tx) error {
		u := undoing{store: store, tx: tx, then: then, now: now}
		for d, err := range Diff(now, then, from, to) {
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err == nil {
				err = u.entry(&d)
			}
			if err != nil {
				return err
			}
		}
		report = u.UndoReport
		return nil
	})
	return report, err
}

// undoing is one run of the transaction.
type undoing struct {
	UndoReport
	store     *engine.Store
	tx        *engine.Tx
	then, now *copal.Snapshot
}

// entry takes back the change of an entry from its earlier state, B, to its present one, A.
func (u *undoing) entry(d *Difference) error {
	was := d.B
	if was != nil && u.expired(was) {
		was = nil
	}
	is, err := u.current(d.Key)
	if err == nil {
		err = u.unchanged(d, is, was)
	}
	if err == nil {
		err = u.write(d.Key, is, was)
	}
	switch {
	case err == errChanged:
		u.Changed = append(u.Changed, d.Key)
		return nil
	case err != nil:
		return err
	case was != nil:
		u.Restored++
	case is != nil:
		u.Deleted++
	}
	if was != d.B {
		u.Expired++
	}
	return nil
}

// errChanged: an entry has changed since the snapshot now.
var errChanged = errors.New("the entry has changed")

// expired reports whether the deadline of an entry has passed.
func (u *undoing) expired(e *Entry) bool {
	deadline, err := e.deadline()
	return err == nil && u.store.Expired(deadline)
}

// current is the entry that the transaction sees, nil for none. It does not count the elements of a collection.
func (u *undoing) current(key []byte) (*Entry, error) {
	found, err := u.tx.Get(nil, key)
	var collection *copal.CollectionError
	switch {
	case errors.Is(err, copal.ErrNotFound):
		return nil, nil
	case errors.As(err, &collection):
		e := &Entry{Key: key, Collection: collection.Type}
		deadline, err := u.tx.DeadlineOf(nil, key)
		if deadline != 0 {
			e.Expires = time.UnixMilli(int64(deadline))
		}
		return e, err
	case err != nil:
		return nil, err
	}
	e, err := entryOf(u.store, &engine.Item{Key: key, Entry: found})
	return &e, err
}

// unchanged returns errChanged if the entry has changed since the snapshot now. The elements of a
// collection are compared when they are written.
func (u *undoing) unchanged(d *Difference, is, was *Entry) error {
	switch {
	case is == nil && (d.A == nil || u.expired(d.A)):
		return nil
	case is == nil || d.A == nil || !is.sameBut(d.A):
		return errChanged
	case is.Collection == "" || was != nil && was.Collection == is.Collection:
		return nil
	}
	for both, err := range pairs.Of(Elements(u.now, d.Key), elements(u.tx.Collections(), u.store, d.Key, nil), nameOf, ends) {
		if err != nil {
			return err
		}
		if !both.A.same(both.B) {
			return errChanged
		}
	}
	return nil
}

// write replaces an entry is, nil for none, by its earlier state was.
func (u *undoing) write(key []byte, is, was *Entry) error {
	switch {
	case was != nil && was.Collection == "":
		w, err := writeOf(u.store, was)
		if err == nil {
			err = u.tx.Write(nil, &w)
		}
		return err
	case is != nil && (was == nil || was.Collection != is.Collection):
		if _, err := u.tx.Delete(nil, nil, key); err != nil {
			return err
		}
		is = nil
	}
	if was == nil {
		return nil
	}
	from, of := collection{key: key}, collectionIn(u.then, key)
	if is != nil {
		from.in = u.now
	}
	err := u.tx.Change(key, of.of, func(p *engine.Plan) ([]*engine.Edit, error) { return u.edits(p, from, of) })
	if err != nil {
		return err
	}
	deadline, err := was.deadline()
	if err == nil {
		err = u.tx.Redate(key, of.of, deadline)
	}
	if errors.Is(err, engine.ErrNotFound) { // none of its elements is left
		return nil
	}
	return err
}

// edits returns the edits that restore the elements of a collection.
func (u *undoing) edits(p *engine.Plan, from, to collection) (edits []*engine.Edit, err error) {
	for both, err := range from.compared(to, false) {
		if err == nil && both.A.same(both.B) {
			continue
		}
		var edit *engine.Edit
		if err == nil {
			edit, err = u.edit(p, to.key, both)
		}
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit)
	}
	return edits, nil
}

// edit restores an element from A to B; the error is errChanged if it has changed.
func (u *undoing) edit(p *engine.Plan, key []byte, both pairs.Pair[Element]) (edit *engine.Edit, err error) {
	name := nameOf(cmp.Or(both.A, both.B))
	var is *Element
	switch found, err := p.Element(name); {
	case err == nil:
		is = &Element{Name: name}
		if err := is.take(u.store, key, &found); err != nil {
			return nil, err
		}
	case !errors.Is(err, copal.ErrNotFound):
		return nil, err
	}
	if !is.same(both.A) {
		return nil, errChanged
	}
	if both.B == nil {
		return &engine.Edit{Sub: name, Delete: true}, nil
	}
	edit = &engine.Edit{Sub: name, Value: both.B.Value}
	edit.Schema, err = numberOf(u.store, both.B.Codec, both.B.Schema)
	return edit, err
}
