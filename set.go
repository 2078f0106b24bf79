package copal

import (
	"iter"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// SetOf is a set of members of type M under a key. Like a HashOf it goes, moves and expires as a whole, is safe for concurrent use, and needs no Close. Members are
// what keys of maps are; strings may be any bytes.
type SetOf[M comparable] struct {
	Collection
	members *keycodec.Codec[M]
}

// OpenSet returns the set under key, which there need not be yet: the first member makes it, and there is none without members. The error is ErrType when M is a type that
// cannot be kept.
func OpenSet[M comparable](db *DB, key string) (*SetOf[M], error) {
	members, err := keycodec.For[M]()
	if err != nil {
		return nil, typeError(err, "the members of set %q", key)
	}
	return &SetOf[M]{newCollection(db, []byte(key), engine.SetType), members}, nil
}

// At is the set as it is in a snapshot, which must be of the same store. Writes to it are ErrReadOnly.
func (s *SetOf[M]) At(then *Snapshot) *SetOf[M] { return &SetOf[M]{s.at(then), s.members} }

// In is the set in a transaction, as HashOf.In.
func (s *SetOf[M]) In(tx *Tx) *SetOf[M] { return &SetOf[M]{s.in(tx), s.members} }

// Add adds members, all or none, and returns how many are new. When it returns, they survive the death of the process, as Map.Set does. The error is ErrType when the key has
// something else than a set.
func (s *SetOf[M]) Add(members ...M) (added int, err error) { return s.add(members, engine.Process) }

// AddFSync is Add that survives the loss of power when it returns.
func (s *SetOf[M]) AddFSync(members ...M) (added int, err error) {
	return s.add(members, engine.Power)
}

func (s *SetOf[M]) add(members []M, d engine.Durability) (int, error) {
	subs, err := subsOf(&s.Collection, s.members, members)
	if err != nil {
		return 0, err
	}
	return s.addSubs(subs, d)
}

// Remove removes members, all or none, and returns how many of them there were. A set without members is none.
func (s *SetOf[M]) Remove(members ...M) (existed int, err error) {
	return s.remove(members, engine.Process)
}

// RemoveFSync is Remove that survives the loss of power when it returns.
func (s *SetOf[M]) RemoveFSync(members ...M) (existed int, err error) {
	return s.remove(members, engine.Power)
}

func (s *SetOf[M]) remove(members []M, d engine.Durability) (int, error) {
	subs, err := subsOf(&s.Collection, s.members, members)
	if err != nil {
		return 0, err
	}
	return s.edit(d, deletions(subs)...)
}

// Has reports whether m is a member. A read that fails goes to the error handler.
func (s *SetOf[M]) Has(m M) bool {
	subs, err := subsOf(&s.Collection, s.members, []M{m})
	s.report(err)
	return err == nil && s.has(subs[0])
}

// All yields each member in their order: that of keys in ordered maps. Members whose order is that of their text, such as strings, are kept in it; others are
// sorted first. The members are those at the beginning. What cannot be read goes to the error handler and is left out.
func (s *SetOf[M]) All() iter.Seq[M] { return s.walk(nil, nil, false) }

// Ascend yields the members from from on, in ascending order.
func (s *SetOf[M]) Ascend(from M) iter.Seq[M] { return s.walk(&from, nil, false) }

// Descend yields the members from from on, in descending order.
func (s *SetOf[M]) Descend(from M) iter.Seq[M] { return s.walk(nil, &from, true) }

// walk yields the members between two bounds.
func (s *SetOf[M]) walk(low, high *M, down bool) iter.Seq[M] {
	return func(yield func(M) bool) {
		span := engine.Span{Down: down}
		for _, b := range []struct {
			m  *M
			to *[]byte
		}{{low, &span.Low}, {high, &span.High}} {
			if b.m == nil {
				continue
			}
			subs, err := subsOf(&s.Collection, s.members, []M{*b.m})
			if err != nil {
				s.report(err)
				return
			}
			*b.to = s.members.Order().AppendSortKey([]byte{}, string(subs[0]))
		}
		for sub := range s.subs(s.members.Order(), span) {
			if m, err := s.members.Decode(sub); err != nil {
				s.misfit(sub, err)
			} else if !yield(m) {
				return
			}
		}
	}
}

// subsOf are the sub-keys of fields or members.
func subsOf[M comparable](c *Collection, by *keycodec.Codec[M], list []M) ([][]byte, error) {
	subs := make([][]byte, len(list))
	for i, m := range list {
		var err error
		if subs[i], err = by.Append(nil, m); err != nil {
			return nil, typeError(err, "an element of the %s under key %q", c.of, c.key)
		}
	}
	return subs, nil
}

// addSubs adds elements without values, and returns how many are new.
func (c *Collection) addSubs(subs [][]byte, d engine.Durability) (int, error) {
	last := lastOf(subs)
	var edits []*engine.Edit
	for i, sub := range subs {
		if last[string(sub)] == i {
			edits = append(edits, &engine.Edit{Sub: sub})
		}
	}
	existed, err := c.edit(d, edits...)
	if err != nil {
		return 0, err
	}
	return len(edits) - existed, nil
}
