package killtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// shelf is one way in which a store keeps entries.
type shelf interface {
	set(o op) error
	remove(o op) (existed bool, err error)
	sync() error
	load(s slot) (value, error) // copal.ErrNotFound
	all() iter.Seq[entry]
	len() int
}

// entry is the entry of a shelf under a key. A key that is no slot's has a text and no slot.
type entry struct {
	slot  slot
	alien string
	value value
}

// shelfNames are the shelves, in the order of slot.Shelf. The first are maps, and their names the
// maps'.
var shelfNames = [...]string{"blobs", "notes", "numbered", "odd: name %", "binary", "singles", "raw"}

const mapShelves = 5 // the first ones

// openShelves opens them all in a store.
func openShelves(db *copal.DB) ([]shelf, error) {
	blobs, err1 := copal.OpenMap[string, []byte](db, shelfNames[0], copal.WithCodec(codec.Bytes))
	notes, err2 := copal.OpenMap[string, Note](db, shelfNames[1])
	numbered, err3 := copal.OpenMap[int64, Note](db, shelfNames[2])
	odd, err4 := copal.OpenMap[[8]byte, []byte](db, shelfNames[3], copal.WithCodec(codec.Bytes))
	binary, err5 := copal.OpenMap[string, Note](db, shelfNames[4], copal.WithCodec(codec.Binary))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	return []shelf{
		mapShelf[string, []byte]{0, blobs, textKey, textSlot, makeBlob, asBlob},
		mapShelf[string, Note]{1, notes, textKey, textSlot, newNote, asNote},
		mapShelf[int64, Note]{2, numbered, numberKey, numberSlot, newNote, asNote},
		mapShelf[[8]byte, []byte]{3, odd, arrayKey, arraySlot, makeBlob, asBlob},
		mapShelf[string, Note]{4, binary, textKey, textSlot, newNote, asNote},
		singleShelf{5, db},
		rawShelf{6, db},
	}, nil
}

func makeBlob(o op) []byte  { return newBlob(o) }
func asBlob(v []byte) value { return blob(v) }
func asNote(v Note) value   { return v }

// mapShelf is a typed map.
type mapShelf[K comparable, V any] struct {
	number uint8
	m      *copal.Map[K, V]
	key    func(slot) K
	slot   func(K) (s slot, ok bool) // the shelf's number is left out
	make   func(op) V
	value  func(V) value
}

func (s mapShelf[K, V]) set(o op) error {
	switch o.Kind {
	case setFSync:
		return s.m.SetFSync(s.key(o.slot), s.make(o))
	case setAsync:
		return s.m.SetAsync(s.key(o.slot), s.make(o))
	case updateAsync:
		_, _, err := s.m.UpdateAsync(s.key(o.slot), func(u *copal.Entry[V]) error { u.Set(s.make(o)); return nil })
		return err
	}
	return s.m.Set(s.key(o.slot), s.make(o))
}

func (s mapShelf[K, V]) remove(o op) (bool, error) {
	switch o.Kind {
	case removeFSync:
		return s.m.DeleteFSync(s.key(o.slot))
	case removeAsync:
		return s.m.DeleteAsync(s.key(o.slot))
	}
	return s.m.Delete(s.key(o.slot))
}

func (s mapShelf[K, V]) sync() error { return s.m.Sync() }

func (s mapShelf[K, V]) load(at slot) (value, error) {
	v, err := s.m.Load(s.key(at))
	return s.value(v), err
}

func (s mapShelf[K, V]) all() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for k, v := range s.m.All() {
			at, ok := s.slot(k)
			if !yield(entryOf(s.number, at, ok, fmt.Sprint(k), s.value(v))) {
				return
			}
		}
	}
}

func (s mapShelf[K, V]) len() int { return s.m.Len() }

func entryOf(shelf uint8, at slot, ok bool, key string, v value) entry {
	at.Shelf = shelf
	if !ok || at.Writer >= writers || at.Key >= keysOfShelf {
		return entry{alien: fmt.Sprintf("key %q of %q", key, shelfNames[shelf]), value: v}
	}
	return entry{slot: at, value: v}
}

// singleShelf is single typed values, without a map. They have no FSync variants.
type singleShelf struct {
	number uint8
	db     *copal.DB
}

const singlePrefix = "single "

func (s singleShelf) set(o op) error {
	return copal.Set(s.db, singlePrefix+textKey(o.slot), newNote(o))
}

func (s singleShelf) remove(o op) (bool, error) {
	return s.db.Raw().Delete([]byte(singlePrefix + textKey(o.slot)))
}

func (s singleShelf) sync() error { return s.db.Sync() }

func (s singleShelf) load(at slot) (value, error) {
	return copal.Load[Note](s.db, singlePrefix+textKey(at))
}

func (s singleShelf) all() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for k := range keysWith(s.db, singlePrefix) {
			n, err := copal.Load[Note](s.db, string(k))
			at, ok := textSlot(strings.TrimPrefix(string(k), singlePrefix))
			if !yield(entryOf(s.number, at, ok && err == nil, fmt.Sprint(string(k), err), n)) {
				return
			}
		}
	}
}

func (s singleShelf) len() int { return countKeys(s.db, singlePrefix) }

// rawShelf is raw keys and bytes. They have no FSync variants.
type rawShelf struct {
	number uint8
	db     *copal.DB
}

const rawPrefix = "raw\x00" // any byte may be in a raw key

func (s rawShelf) key(at slot) []byte { return []byte(rawPrefix + textKey(at)) }

func (s rawShelf) set(o op) error { return s.db.Raw().Set(s.key(o.slot), newBlob(o)) }

func (s rawShelf) remove(o op) (bool, error) { return s.db.Raw().Delete(s.key(o.slot)) }

func (s rawShelf) sync() error { return s.db.Sync() }

func (s rawShelf) load(at slot) (value, error) {
	b, err := s.db.Raw().Load(s.key(at))
	return blob(b), err
}

func (s rawShelf) all() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for k, v := range s.db.Raw().Prefix([]byte(rawPrefix)) {
			at, ok := textSlot(strings.TrimPrefix(string(k), rawPrefix))
			if !yield(entryOf(s.number, at, ok, string(k), blob(v))) {
				return
			}
		}
	}
}

func (s rawShelf) len() int { return countKeys(s.db, rawPrefix) }

func countKeys(db *copal.DB, prefix string) (n int) {
	for range keysWith(db, prefix) {
		n++
	}
	return n
}

// keysWith yields the raw keys that begin with prefix.
func keysWith(db *copal.DB, prefix string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for key := range db.Raw().KeysBetween([]byte(prefix), nil) {
			if !strings.HasPrefix(string(key), prefix) || !yield(key) {
				return
			}
		}
	}
}

// A slot as a key of each type, and back.

func textKey(s slot) string { return fmt.Sprintf("w%d:k%d", s.Writer, s.Key) }

func textSlot(k string) (s slot, ok bool) {
	_, err := fmt.Sscanf(k, "w%d:k%d", &s.Writer, &s.Key)
	return s, err == nil && textKey(s) == k
}

// numberKey is negative for odd keys.
func numberKey(s slot) int64 {
	n := int64(s.Writer)<<16 | int64(s.Key)
	if s.Key%2 == 1 {
		return -n
	}
	return n
}

func numberSlot(k int64) (s slot, ok bool) {
	n := max(k, -k)
	s = slot{Writer: uint8(n >> 16), Key: uint16(n)}
	return s, numberKey(s) == k
}

func arrayKey(s slot) (k [8]byte) {
	k = [8]byte{':', '\n', 0, s.Writer, 0xff}
	binary.BigEndian.PutUint16(k[6:], s.Key)
	return k
}

func arraySlot(k [8]byte) (s slot, ok bool) {
	s = slot{Writer: k[3], Key: binary.BigEndian.Uint16(k[6:])}
	return s, arrayKey(s) == k
}
