package copal

import (
	"context"
	"iter"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// SetOf is a set of members of type M under a key. Len, Clear, Rename, Expire and so on are methods
// of its [Collection]. It is safe for concurrent use, and needs no Close. Members have the types of
// map keys; strings may be any bytes.
type SetOf[M comparable] struct {
	Collection
	members *keycodec.Codec[M]
}

// OpenSet returns the set under key. It need not exist: the first member creates it, and without
// members there is none. The error is ErrType when M is a type that cannot be kept.
func OpenSet[M comparable](db *DB, key string) (*SetOf[M], error) {
	members, err := keycodec.For[M]()
	if err != nil {
		return nil, typeError(err, "the members of set %q", key)
	}
	return &SetOf[M]{newCollection(db, []byte(key), engine.SetType), members}, nil
}

// StringSet returns the set under key as bytes: its members are strings of any bytes. Members that
// a SetOf of another type has added are shown as their text.
func (r *Raw) StringSet(key []byte) *SetOf[string] {
	s := &SetOf[string]{newCollection(r.db, key, engine.SetType), r.db.asBytes().fields}
	s.handle = r.handle
	return s
}

// With returns a handle whose writes are as durable as d. Async is Write.
func (s *SetOf[M]) With(d Durability) *SetOf[M] {
	n := *s
	n.logged(d)
	return &n
}

// At returns a handle that reads a snapshot, as Map.At does.
func (s *SetOf[M]) At(then *Snapshot) *SetOf[M] {
	n := *s
	n.at(then)
	return &n
}

// In returns a handle that reads and writes in a transaction, as Map.In does.
func (s *SetOf[M]) In(tx *Tx) *SetOf[M] {
	n := *s
	n.in(tx)
	return &n
}

// WithContext returns a handle whose waiting calls end with ctx, as Map.WithContext says.
func (s *SetOf[M]) WithContext(ctx context.Context) *SetOf[M] {
	n := *s
	n.within(ctx)
	return &n
}

// Backward returns a handle that yields the same members the other way round.
func (s *SetOf[M]) Backward() *SetOf[M] {
	n := *s
	n.backward()
	return &n
}

// Add adds members, all or none, and returns how many are new. When it returns nil, they survive
// the death of the process, as with Map.Set. The error is ErrType when the key holds something
// other than a set.
func (s *SetOf[M]) Add(members ...M) (added int, err error) {
	subs, err := subsOf(&s.Collection, s.members, members)
	if err != nil {
		return 0, err
	}
	edits := make([]driver.Element, len(subs))
	for i, sub := range subs {
		edits[i].Sub = sub
	}
	edits = distinct(edits)
	existed, err := s.edit(edits, s.by)
	if err != nil {
		return 0, err
	}
	return len(edits) - existed, nil
}

// Delete removes members, all or none, and returns how many of them existed. A set that loses its
// last member is gone.
func (s *SetOf[M]) Delete(members ...M) (existed int, err error) { return s.delete(members, s.by) }

// DeleteFSync is Delete that survives the loss of power when it returns.
func (s *SetOf[M]) DeleteFSync(members ...M) (existed int, err error) {
	return s.delete(members, engine.Power)
}

func (s *SetOf[M]) delete(members []M, d engine.Durability) (int, error) {
	subs, err := subsOf(&s.Collection, s.members, members)
	if err != nil {
		return 0, err
	}
	return s.edit(deletions(subs), d)
}

// Has reports whether m is a member. A read that fails goes to the error handler.
func (s *SetOf[M]) Has(m M) bool {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	s.report(err)
	return err == nil && s.has(subs[0])
}

// All yields each member, in the order of keys of an ordered map. Members that are ordered by their
// text, such as strings, are stored in that order; others are sorted first. All yields the members
// that existed when it began. A member that cannot be read is left out, and its error goes to the
// error handler.
func (s *SetOf[M]) All() iter.Seq[M] { return s.between(nil, nil) }

// From yields the members in [from, ∞).
func (s *SetOf[M]) From(from M) iter.Seq[M] { return s.between(&from, nil) }

// Until yields the members in (-∞, to).
func (s *SetOf[M]) Until(to M) iter.Seq[M] { return s.between(nil, &to) }

// Between yields the members in [from, to).
func (s *SetOf[M]) Between(from, to M) iter.Seq[M] { return s.between(&from, &to) }

// Ranked yields the members in places [from, to) of the order of All, the first in place 0. Those
// before them are not read, if members are ordered by their text. A member by chance:
//
//	at := rand.IntN(s.Len())
//	for member := range s.Ranked(at, at+1) {
func (s *SetOf[M]) Ranked(from, to int) iter.Seq[M] {
	return s.decoded(s.ranked(s.members.Order(), from, to, false))
}

// between yields the members in [from, to); nil is no bound.
func (s *SetOf[M]) between(from, to *M) iter.Seq[M] {
	return func(yield func(M) bool) {
		span, err := spanOf(&s.Collection, s.members, from, to)
		if err != nil {
			s.report(err)
			return
		}
		s.decoded(s.fields(s.members.Order(), span, 0, false))(yield)
	}
}

// decoded yields the members that elements are.
func (s *SetOf[M]) decoded(elements iter.Seq[driver.Element]) iter.Seq[M] {
	return func(yield func(M) bool) {
		for e := range elements {
			if m, err := s.members.Decode(e.Sub); err != nil {
				s.misfit(err)
			} else if !yield(m) {
				return
			}
		}
	}
}

// subsOf returns the sub-keys of fields or members.
func subsOf[M comparable](c *Collection, by *keycodec.Codec[M], list []M) ([][]byte, error) {
	subs := make([][]byte, len(list))
	for i, m := range list {
		var err error
		if subs[i], err = by.Append(nil, m); err != nil {
			return nil, typeError(err, "an element of %s", c.title())
		}
	}
	return subs, nil
}
