package engine

import (
	"errors"
	"strings"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/record"
)

// ErrChanged is the error of a transaction that requires a key to be unchanged, when it is not.
var ErrChanged = errors.New("copal: a required key has changed since the snapshot")

// required is a key that must be unchanged since a view, for the transaction to commit.
type required struct {
	view     *View
	key      string
	id       uint64 // of the collection in the view, 0 for none
	deadline uint64 // of the entry in the view, 0 for none
}

// Require lets the transaction commit only if a key is unchanged since the view, which is of the same store and
// was opened earlier: no write, not even one that restores the value or is of an element, and no deadline has
// passed. Otherwise this call or the commit returns ErrChanged, for which the transaction does not run again. A
// key that is not in the view must still be missing.
func (tx *Tx) Require(v *View, key []byte) error {
	if tx.done.Load() {
		return ErrTxDone
	}
	r, err := v.requirement(key)
	if err != nil {
		return err
	}
	in, err := tx.store.use()
	if err != nil {
		return err
	}
	defer tx.store.life.leave(in)
	tx.required = append(tx.required, r)
	var shards shardSet
	r.addShards(tx.store, &shards)
	shards.each(func(n int) { tx.store.keys[n].Lock() })
	defer shards.each(func(n int) { tx.store.keys[n].Unlock() })
	return r.checkLocked(tx.store)
}

// requirement returns the state of a key in the view.
func (v *View) requirement(key []byte) (r required, err error) {
	r = required{view: v, key: string(key)}
	then := v.asItWas()
	if r.deadline, err = then.deadline(nil, key); err == nil {
		var c Collection
		if c, err = v.Collections().Find(key, ""); err == nil {
			r.id = c.ID
		}
	}
	if err == ErrNotFound || errors.Is(err, ErrType) {
		err = nil
	}
	return r, err
}

// addShards adds the shards of the key and of the elements. The caller is inside the gate.
func (r *required) addShards(s *Store, shards *shardSet) {
	shards.add(s.spaces[0].route(record.Value, []byte(r.key)).hash([]byte(r.key)))
	if r.id != 0 {
		shards.add(s.spaces[0].elements.hash(collection.OwnerKey(r.id)))
	}
}

// checkLocked returns ErrChanged unless all is unchanged. The caller holds the locks.
func (r *required) checkLocked(s *Store) error {
	if err := r.view.failure(); err != nil {
		return err
	}
	t := s.spaces[0].route(record.Value, []byte(r.key))
	if s.Expired(r.deadline) || r.view.changedLocked(t, t.hash([]byte(r.key)), r.key[t.prefix:]) {
		return ErrChanged
	}
	if r.id == 0 {
		return nil
	}
	elements := s.spaces[0].elements
	prefix := string(collection.AppendElement(nil, r.id, nil))
	shard := int(elements.hash([]byte(prefix)) % cache.Shards)
	if r.view.anyChangedLocked(elements, shard, func(own string) bool { return strings.HasPrefix(own, prefix) }) {
		return ErrChanged
	}
	return nil
}

// OfPast reports whether a view is of a moment of the past, which has no later changes.
func (tx *Tx) OfPast(v *View) bool { return v.store != tx.store }
