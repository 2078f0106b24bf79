package engine

import (
	"bytes"
	"errors"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A read-only store opens in spite of damage. A key named in damaged bytes is then an entry whose
// record cannot be read. It is in the index, at the address of the damage, so each read of the key
// is an error, whatever the record was: in the log, in views, in an iteration. An older record of
// the key never shows.
//
// No read of such a record returns its key, so the keys of these entries are kept beside the index.
// Only a replay of the log looks them up, one at a time.

// lostKey is a key of a table, by its hash.
type lostKey struct {
	table *Table
	hash  uint64
}

// lostEntry is an entry whose record cannot be read.
type lostEntry struct {
	hit
	key string
}

// PassDamage lets the recovery of a store go on after damage.
func PassDamage(s *Store, r *seglog.Recovery) { r.PassDamage(s.lose) }

// lose makes an entry of a key that damaged bytes name. Later changes stay.
func (s *Store) lose(l seglog.Lost) error {
	sp := s.spaces[l.Head.Space]
	switch entry := l.Head.Op == record.Set || l.Head.IsDeletion() || l.Head.Op == record.Range; {
	case sp == nil, !entry, l.Head.Kind == record.Schema, l.Head.Kind == record.System:
		return nil
	case l.Head.Op == record.Range:
		return s.loseRange(sp, &l)
	}
	if l.Head.Kind == record.Element && l.Value != nil { // an owner, in a group that may have lost the meta
		meta := l
		meta.Key = l.Value
		if err := s.loseIn(sp.route(record.Meta, meta.Key), &meta); err != nil {
			return err
		}
	}
	return s.loseIn(sp.route(l.Head.Kind, l.Key), &l)
}

func (s *Store) loseIn(t *Table, l *seglog.Lost) error {
	hash, own := t.hash(l.Key), t.ownOf(l.Key)
	old, err := s.standing(t, hash, l.Key)
	switch {
	case errors.Is(err, seglog.ErrCorrupt):
		return nil // reads of it are errors already
	case err != nil:
		return err
	case old.address != 0 && s.countsFrom(old.seq, old.group) > l.Seq:
		return nil
	}
	now := hit{address: l.Address, schema: old.schema, seq: l.Seq}
	t.place(hash, own, old, &now, false, l.Seq)
	s.orders.replayed(t, own, false, l.Seq)
	if s.lost == nil {
		s.lost = map[lostKey]lostEntry{}
	}
	s.lost[lostKey{t, hash}] = lostEntry{now, string(l.Key)}
	return nil
}

// loseRange loses the entries that a damaged range deletion may have deleted: only the key where its range begins
// is known. In most orders of typed maps, keys that are less by their bytes may be greater in the order, so there
// all keys of the map go.
func (s *Store) loseRange(sp *space, l *seglog.Lost) error {
	tables := sp.tables()
	if l.Head.Kind == record.Element {
		tables = []*Table{sp.elements}
	}
	of := l.Key[:bytes.IndexByte(l.Key, ':')+1]
	mayHave := func(key []byte) bool {
		return bytes.Compare(key, l.Key) >= 0 || len(of) > 0 && bytes.HasPrefix(key, of)
	}
	for _, t := range tables {
		var keys [][]byte
		for a, err := range t.addresses() {
			if err != nil {
				return err
			}
			e, err := s.readAt(a, nil)
			if err == nil && mayHave(e.Key) {
				keys = append(keys, e.Key)
			} else if err != nil && !errors.Is(err, seglog.ErrCorrupt) {
				return err
			}
		}
		for _, key := range keys {
			if err := s.loseIn(t, &seglog.Lost{Key: key, Seq: l.Seq, Address: l.Address}); err != nil {
				return err
			}
		}
	}
	return nil
}

// standing is Table.find for a replay, which treats an entry whose record cannot be read like any other.
func (s *Store) standing(t *Table, hash uint64, key []byte) (hit, error) {
	if l, ok := s.lost[lostKey{t, hash}]; ok {
		return l.hit, nil
	}
	return t.find(hash, key)
}

// says reports whether the numbers of an entry's record are right, as those kept for a lost entry are. A head
// alone is not verified, and a number that damage has made higher would keep newer records from counting.
func (s *Store) says(t *Table, hash uint64, a seglog.Address) bool {
	if _, ok := s.lost[lostKey{t, hash}]; ok {
		return true
	}
	_, err := s.readAt(a, nil)
	return !errors.Is(err, seglog.ErrCorrupt)
}

// found forgets that the record of an entry cannot be read: there is a newer one, or no entry any more.
func (s *Store) found(t *Table, hash uint64) {
	if s.lost != nil {
		delete(s.lost, lostKey{t, hash})
	}
}

// lostIn returns the entries of a table with unreadable records and keys that begin with prefix.
func (s *Store) lostIn(t *Table, prefix []byte) map[lostKey]lostEntry {
	list := map[lostKey]lostEntry{}
	for k, l := range s.lost {
		if k.table == t && bytes.HasPrefix([]byte(l.key), prefix) {
			list[k] = l
		}
	}
	return list
}

// isLost reports whether err is the error of an entry that is already known to be unreadable.
func (s *Store) isLost(err error) bool { return len(s.lost) > 0 && errors.Is(err, seglog.ErrCorrupt) }
