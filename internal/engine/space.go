package engine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// space is a key space: the declared maps, and one table for all other keys.
type space struct {
	maps     map[string]*Table // by escaped name
	raw      *Table
	elements *Table // of collections
}

// space returns the key space of the given number, which is made when it is missing.
// The caller excludes all others, or is recovery.
func (s *Store) space(number uint64) *space {
	sp := s.spaces[number]
	if sp == nil {
		sp = &space{maps: map[string]*Table{}, raw: newTable(s, ""), elements: newTable(s, "")}
		sp.elements.ofElements = true
		s.spaces[number] = sp
	}
	return sp
}

// route returns the table of a key.
func (sp *space) route(kind record.Kind, key []byte) *Table {
	if kind == record.Element {
		return sp.elements
	}
	if i := bytes.IndexByte(key, ':'); i >= 0 {
		if t := sp.maps[string(key[:i])]; t != nil {
			return t
		}
	}
	return sp.raw
}

// tables returns the tables of the key space with keys of users.
func (sp *space) tables() []*Table {
	list := append(make([]*Table, 0, 1+len(sp.maps)), sp.raw)
	for _, t := range sp.maps {
		list = append(list, t)
	}
	return list
}

// Map returns the table of the map with this name, which gets one when it has none: the entries
// move there, once. The first write declares it in the log.
func (s *Store) Map(name string) (t *Table, err error) {
	escaped := string(keycodec.AppendName(nil, name))
	if len(mapPrefix)+len(escaped) > MaxKeyBytes {
		return nil, fmt.Errorf("%w: the name of a map, of %d bytes", seglog.ErrTooLarge, len(escaped))
	}
	in, err := s.use()
	if err != nil {
		return nil, err
	}
	t = s.spaces[0].maps[escaped]
	s.life.leave(in)
	if t == nil {
		if t, err = s.declareNew(escaped); err != nil {
			return nil, err
		}
	}
	t.opened.Store(true)
	return t, nil
}

// declareNew is declare while the store is in use.
func (s *Store) declareNew(name string) (*Table, error) {
	s.exclude()
	defer s.admit()
	if s.closed {
		return nil, seglog.ErrClosed
	}
	return s.declare(0, name)
}

// declare is Map for the escaped name, in any key space.
func (s *Store) declare(number uint64, name string) (*Table, error) {
	sp := s.space(number)
	if t := sp.maps[name]; t != nil {
		return t, nil
	}
	t := newTable(s, name)
	prefix := name + ":"
	type move struct {
		from, to uint64 // hashes
		key      string
		hit
	}
	var moves []move
	if sp.raw.count() > 0 {
		for a, err := range sp.raw.addresses() {
			if err != nil {
				return nil, err
			}
			e, err := s.readAt(a, nil)
			if s.isLost(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if len(e.Key) >= len(prefix) && string(e.Key[:len(prefix)]) == prefix {
				moves = append(moves, move{sp.raw.hash(e.Key), t.hash(e.Key), string(e.Key), hitOf(a, &e.Head, e.Bytes)})
			}
		}
	}
	for k, l := range s.lostIn(sp.raw, []byte(prefix)) {
		s.found(sp.raw, k.hash)
		hash := t.hash([]byte(l.key))
		moves = append(moves, move{k.hash, hash, l.key, l.hit})
		s.lost[lostKey{t, hash}] = l
	}
	for _, m := range moves {
		sp.raw.leave(m.from, m.key, m.hit, 0)
		t.enter(m.to, m.key[t.prefix:], hit{}, &m.hit, false, 0)
	}
	if sp.raw.versions.Load() != nil {
		s.views.work.carry(sp.raw, t, prefix)
	}
	if o := sp.raw.order.Load(); o != nil {
		o.endKept()
	}
	sp.maps[name] = t
	return t, nil
}

// MapCount is a declared map and its size.
type MapCount struct {
	Name string // escaped, as in the keys
	Keys int
}

// Maps returns the declared maps of key space 0.
func (s *Store) Maps() []MapCount {
	in := s.life.enter()
	tables := slices.Collect(maps.Values(s.spaces[0].maps))
	s.life.leave(in)
	s.beforeCounting(tables...)
	var list []MapCount
	for _, t := range tables { // outside of the gate, see entries
		if !t.isGone() {
			list = append(list, MapCount{t.name, t.counted.read(t)})
		}
	}
	return list
}
