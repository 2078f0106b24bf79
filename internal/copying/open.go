package copying

import (
	"context"
	"iter"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// View is the content of a store at one moment or, for a server without moments, at the time of
// each read. It is for commands that read a whole store, local or remote. The caller closes it.
type View struct {
	s store
	v view
}

// Look opens the present moment of a store, for as long as ctx is not done.
func Look(ctx context.Context, db *copal.DB) (*View, error) {
	s := storeOf(db)
	v, err := s.view(ctx)
	return &View{s, v}, err
}

// Entries yields the entries with keys in [from, to), in bytewise order of their keys. nil is no bound. Of a server
// without moments it has all keys in memory. A collection comes without its number of elements where a server has it.
func (v *View) Entries(from, to []byte) iter.Seq2[admin.Entry, error] {
	return entriesOf(v.v, from, to)
}

// Find returns the entry under a key. The error is copal.ErrNotFound if there is none.
func (v *View) Find(key []byte) (admin.Entry, error) { return v.v.one(key) }

// Elements yields the elements of a collection: of a hash with the field as the name, of a set with
// the member, of a sorted set with the member and the score as text, and of a list in order,
// without a name. Those of a stream are of internal/redisstream. With typed false they have the
// form of a store that is not Typed: without codecs and schemas, and for a stream only the parts in
// a dump of Redis. The error is errors.ErrUnsupported for a type that no store of copal has.
func (v *View) Elements(e *admin.Entry, typed bool) iter.Seq2[admin.Element, error] {
	return elementsOf(v.v, e, typed)
}

// Maps returns the names of the maps that the store reports.
func (v *View) Maps(ctx context.Context) ([]string, error) { return v.s.maps(ctx) }

// Total is the number of entries, about.
func (v *View) Total() int64 { return v.v.total() }

// Moment returns the sequence number and the time of the view. It reports false where it is of no moment.
func (v *View) Moment() (seq uint64, at time.Time, ok bool) {
	switch v := v.v.(type) {
	case moment:
		return v.s.Seq(), v.s.Time(), true
	case sessionView:
		seq, millis := v.session.Moment()
		return seq, time.UnixMilli(int64(millis)), true
	}
	return 0, time.Now(), false
}

// Differences yields the entries with keys in [from, to) that differ between two views, in bytewise
// order of their keys. Parts that a store which is not Typed does not keep are not compared. An
// error with a Key concerns only that entry; one without is the last. The position of a copy is no
// entry.
func Differences(a, b *View, from, to []byte) iter.Seq2[admin.Difference, error] {
	typed := a.Typed() && b.Typed()
	return func(yield func(admin.Difference, error) bool) {
		for p, err := range paired(a.v, b.v, from, to) {
			var d admin.Difference
			same := false
			if err == nil {
				d = admin.Difference{Key: keyOf(&p), A: p.A, B: p.B}
				same, _, err = alike(a.v, b.v, &p, typed)
			}
			if !same && !yield(d, err) {
				return
			}
		}
	}
}

// Typed reports whether the store keeps all that copal knows of an entry: a directory and a copal serve do. A Redis
// keeps no codecs, schemas and content types, no names of maps, and less of a stream.
func (v *View) Typed() bool { return v.s.typed() }

// Close ends the view.
func (v *View) Close() { v.v.close() }

// Target is a store that entries are written to.
type Target struct{ s store }

// Into is the store as a target.
func Into(db *copal.DB) Target { return Target{storeOf(db)} }

// Put sets entries that are no collections, and deletes those that are Deleted. Of several with one key the last
// counts. In a directory it is all or none of them; a server may have some of them when there is an error.
func (t Target) Put(ctx context.Context, list []*admin.Entry) error {
	at := make(map[string]int, len(list))
	once := make([]*admin.Entry, 0, len(list))
	for _, e := range list {
		if i, ok := at[string(e.Key)]; ok {
			once[i] = e
			continue
		}
		at[string(e.Key)] = len(once)
		once = append(once, e)
	}
	if len(once) == 0 {
		return nil
	}
	return t.s.put(ctx, once)
}

// PutCollection replaces the entry of the key of e by a collection with elements as View.Elements
// yields them. When there is an error the key may have some of them.
func (t Target) PutCollection(ctx context.Context, e *admin.Entry, elements iter.Seq2[admin.Element, error]) error {
	return t.s.putCollection(ctx, e, elements)
}

// Declare makes a map known, where the store keeps that.
func (t Target) Declare(ctx context.Context, name string) error { return t.s.declare(ctx, name) }

// Typed is View.Typed.
func (t Target) Typed() bool { return t.s.typed() }

// Sync returns when the entries that were put are as durable as the store can make them.
func (t Target) Sync(ctx context.Context) error { return t.s.sync(ctx) }
