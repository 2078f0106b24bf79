package admin

import (
	"errors"
	"iter"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
)

// Range is a range of keys of a store: of keys that are ordered by their bytes, or of a map whose
// keys have another order, such as integers. ParseRange and Selection.Range return one; the zero
// Range has no keys.
type Range struct {
	of     engine.Range
	parsed bool
}

var errNoRange = errors.New("copal: a Range that ParseRange has not returned")

// ParseRange returns the range that start and rest name, in the form in which the log has the key
// and the value of a range deletion:
//
//	users:    ""                     the keys that begin with users:
//	users:b   "bytes users:d"        the keys in [users:b, users:d), ordered by their bytes
//	ages:9    "int ages:30"          the keys of the map ages in [9, 30)
//	ages:     "int"                  all keys of ages, as integers
//
// Bounds may be left out.
func ParseRange(start, rest []byte) (Range, error) {
	r, err := engine.AskedRange(start, rest)
	if err != nil {
		return Range{}, err
	}
	return Range{r, true}, nil
}

// RangeOf returns the arguments of ParseRange for the range of c, which a watch has yielded and
// whose Range must be true.
func RangeOf(c *copal.Change) (start, rest []byte) {
	if of := opened.RestOf.Load(); of != nil {
		rest = (*of)(c)
	}
	return c.Key, rest
}

// Beginning returns the bytes with which all keys of the range begin, such as the copal.MapPrefix
// of a map; nil for none.
func (r *Range) Beginning() []byte { return r.of.Beginning() }

// Has reports whether a key is in the range.
func (r *Range) Has(key []byte) bool { return r.parsed && r.of.Has(key) }

// Entries yields the entries of r in its order, backward from the last to the first. If after is
// not nil, it begins after that key, for which Has must be true. Key and value are valid until the
// next entry. A collection has its type and its deadline, and no elements. The transaction depends
// on the entries that were yielded.
//
// Errors include errors.ErrUnsupported for a store on another machine, and one for the zero Range.
// The error of an entry comes with its key, if that is known.
func (r *Range) Entries(tx *copal.Tx, after []byte, backward bool) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		in := engineTx(tx)
		switch {
		case !r.parsed:
			yield(Found{}, errNoRange)
			return
		case in == nil:
			yield(Found{}, errors.ErrUnsupported)
			return
		}
		var before Found
		for item := range in.InRange(&r.of, after, backward) {
			e, err := foundIn(in, &item, &before)
			if err == nil && e.Number != 0 {
				before = e
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// foundIn returns the entry that a walk of a transaction has come to. Mostly it has the schema of the entry before,
// which need not be looked up again.
func foundIn(tx *engine.Tx, item *engine.Item, before *Found) (Found, error) {
	var of *copal.CollectionError
	switch {
	case item.Err == nil && item.Schema != 0 && item.Schema == before.Number:
		e := storedOf(item)
		e.Codec, e.Schema = before.Codec, before.Entry.Schema
		return Found{e, item.Schema}, nil
	case item.Err == nil:
		e, err := entryOf(tx.Owner(), item)
		return Found{e, item.Schema}, err
	case !errors.As(item.Err, &of):
		return Found{Entry: Entry{Key: item.Key}}, item.Err
	}
	deadline, err := tx.DeadlineOf(nil, item.Key)
	return Found{Entry: Entry{Key: item.Key, Collection: of.Type, Expires: timeOf(deadline)}}, err
}

// DeleteRange deletes the entries in a range as one write, which is as durable as Put. For a store
// on another machine the error is errors.ErrUnsupported.
func DeleteRange[S Writable](in S, r *Range) error {
	if !r.parsed {
		return errNoRange
	}
	store, tx, err := writable(in)
	switch {
	case err != nil:
		return err
	case !r.of.IsDeletable() && tx == nil:
		return any(in).(*copal.DB).Update(func(tx *copal.Tx) error { return DeleteRange(tx, r) })
	case !r.of.IsDeletable():
		return deleteHalf(any(in).(*copal.Tx), *r)
	case tx != nil:
		return tx.DeleteRange(r.of)
	}
	return store.DeleteRange(r.of, engine.Process)
}

// deleteHalf deletes a range with one bound of two, which no record names: from its first key on, or up to its last
// one, which is deleted by itself.
func deleteHalf(tx *copal.Tx, r Range) error {
	for end, err := range r.Entries(tx, nil, r.of.Span.High == nil) {
		if err != nil {
			return err
		}
		if r.of.Span.High == nil {
			if _, err := tx.Raw().Delete(end.Key); err != nil {
				return err
			}
			r.of.Span.High = r.of.SortKey(end.Key)
		} else {
			r.of.Span.Low = r.of.SortKey(end.Key)
		}
		if r.of.None() {
			return nil
		}
		return engineTx(tx).DeleteRange(r.of)
	}
	return nil
}

// Len returns the number of entries in a store, or in a transaction, whose keys begin with prefix,
// without those that have expired. It is immediate for a store if prefix is empty, or the
// copal.MapPrefix of a map that is declared; otherwise, and in a transaction, it takes a walk. The
// error is errors.ErrUnsupported for a store on another machine.
func Len[S Writable](in S, prefix []byte) (int, error) {
	store, tx, err := writable(in)
	switch {
	case err != nil:
		return 0, err
	case tx != nil:
		return tx.LenOf(prefix)
	}
	return store.LenOf(prefix)
}

// Writable is a store or a transaction, in which entries are written. Len takes the same types.
type Writable interface{ *copal.DB | *copal.Tx }

// writable returns the engine of a store, or of a transaction, which is nil for a store. The error
// is errors.ErrUnsupported for a store on another machine.
func writable[S Writable](in S) (*engine.Store, *engine.Tx, error) {
	switch in := any(in).(type) {
	case *copal.Tx:
		if tx := engineTx(in); tx != nil {
			return tx.Owner(), tx, nil
		}
	case *copal.DB:
		if opened.DriverOf(in) == nil {
			return opened.Engine(in), nil, nil
		}
	}
	return nil, nil, errors.ErrUnsupported
}

// engineTx returns the engine's transaction, nil for a store on another machine.
func engineTx(tx *copal.Tx) *engine.Tx {
	if of := opened.Tx.Load(); of != nil {
		return (*of)(tx)
	}
	return nil
}
