package killtest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// txShape is transactions over several maps, raw keys and a hash. Some give up at the end.
type txShape struct {
	keys      int // of each place
	few, most int // changes
	bytes     int // of a value, at most
}

// The places where a transaction writes.
const (
	txRaw = iota
	txNotes
	txNumbers
	txArrays
	txHash
	txPlaces
)

func (x *txShape) plan(d *dice) step {
	s := d.step(d.one("tx tx tx tx tx tx give-up"))
	total := 0
	for i := range x.few + d.upTo(x.most-x.few) {
		c := change{place: d.IntN(txPlaces), key: d.IntN(x.keys), remove: d.IntN(4) == 0}
		if !c.remove {
			c.value = d.value(i, d.size(x.bytes))
			if c.place != txHash && d.IntN(5) == 0 {
				c.until = d.far()
			}
		}
		if total += int(c.value.Size); total > stepBytes {
			break
		}
		s.changes = append(s.changes, c)
	}
	s.again = d.again(total)
	return s
}

func txName(place, key int) string {
	return [...]string{"raw ", "notes ", "numbers ", "arrays ", "hash/"}[place] + fmt.Sprint(key)
}

// text returns the text that look finds for the value of a change.
func (c *change) text() string {
	if c.place == txRaw || c.place == txHash {
		return c.value.text()
	}
	return c.value.stampText()
}

func (x *txShape) apply(c content, s *step) bool {
	if s.verb == "give-up" {
		return true
	}
	for _, ch := range s.changes {
		name := txName(ch.place, ch.key)
		if ch.remove {
			delete(c, name)
			continue
		}
		t := thing{text: ch.text(), until: ch.until}
		if ch.until != 0 && ch.place != txRaw {
			t.until = mortal
		}
		c[name] = t
	}
	return true
}

func (x *txShape) open(db *copal.DB, writer uint8) (hands, error) {
	name := func(place string) string { return fmt.Sprintf("%s of %d", place, writer) }
	notes, err1 := copal.OpenMap[string, Note](db, name("notes"))
	numbers, err2 := copal.OpenMap[int64, Note](db, name("numbers"), copal.WithCodec(codec.Binary))
	arrays, err3 := copal.OpenMap[[8]byte, Note](db, name("arrays"))
	return &txHands{db, notes, numbers, arrays, db.Raw().Hash([]byte(name("hash"))), []byte(name("raw") + "\x00")}, errors.Join(err1, err2, err3)
}

type txHands struct {
	db      *copal.DB
	notes   *copal.Map[string, Note]
	numbers *copal.Map[int64, Note]
	arrays  *copal.Map[[8]byte, Note]
	hash    *copal.HashOf[string, []byte]
	prefix  []byte
}

// The keys of each map. An array's holds bytes that a name cannot.
func noteKey(n int) string   { return fmt.Sprint(n) }
func bytesKey(n int) [8]byte { return [8]byte{'\n', byte(n >> 8), byte(n), 0, ':'} }
func numberOf(k [8]byte) int { return int(k[1])<<8 | int(k[2]) }

var errGivenUp = errors.New("given up on purpose")

func (h *txHands) do(s *step) (bool, error) {
	update := h.db.Update
	if s.fsync {
		update = h.db.UpdateFSync
	}
	return true, repeat(s, func() error {
		err := update(func(tx *copal.Tx) error {
			for i := range s.changes {
				if err := h.change(tx, &s.changes[i]); err != nil {
					return err
				}
			}
			if s.verb == "give-up" {
				return errGivenUp
			}
			return nil
		})
		if errors.Is(err, errGivenUp) {
			err = nil
		}
		return err
	})
}

func (h *txHands) change(tx *copal.Tx, c *change) (err error) {
	switch c.place {
	case txRaw:
		key := append(bytes.Clone(h.prefix), fmt.Sprint(c.key)...)
		switch {
		case c.remove:
			_, err = tx.Raw().Delete(key)
		case c.until != 0:
			err = tx.Raw().SetUntil(key, newBlob(c.value), time.UnixMilli(c.until))
		default:
			err = tx.Raw().Set(key, newBlob(c.value))
		}
	case txHash:
		field := fmt.Sprint(c.key)
		if c.remove {
			_, err = h.hash.In(tx).Delete(field)
		} else {
			err = h.hash.In(tx).Set(field, newBlob(c.value))
		}
	case txNotes:
		err = changeNote(h.notes.In(tx), noteKey(c.key), c)
	case txNumbers:
		err = changeNote(h.numbers.In(tx), int64(c.key), c)
	case txArrays:
		err = changeNote(h.arrays.In(tx), bytesKey(c.key), c)
	}
	return err
}

func changeNote[K comparable](m *copal.Map[K, Note], key K, c *change) (err error) {
	switch {
	case c.remove:
		_, err = m.Delete(key)
	case c.until != 0:
		err = m.SetTTL(key, newNote(c.value), time.Until(time.UnixMilli(c.until)))
	default:
		err = m.Set(key, newNote(c.value))
	}
	return err
}

func (h *txHands) look(c content) error {
	raw := rawHands{rawShape: &rawShape{}, db: h.db, prefix: h.prefix}
	own := content{}
	if err := raw.look(own); err != nil {
		return err
	}
	for name, t := range own {
		c["raw "+name] = t
	}
	for field, v := range h.hash.All() {
		c["hash/"+field] = thing{text: blobText(v)}
	}
	return errors.Join(
		lookNotes(c, h.notes, func(k string) string { return "notes " + k }),
		lookNotes(c, h.numbers, func(k int64) string { return txName(txNumbers, int(k)) }),
		lookNotes(c, h.arrays, func(k [8]byte) string { return txName(txArrays, numberOf(k)) }),
	)
}

func lookNotes[K comparable](c content, m *copal.Map[K, Note], name func(K) string) error {
	for k, n := range m.All() {
		t := thing{text: noteText(n)}
		left, err := m.TTL(k)
		if err != nil {
			return err
		}
		if left > time.Hour {
			t.until = mortal
		} else if left != 0 {
			t.until = time.Now().Add(left).UnixMilli()
		}
		c[name(k)] = t
	}
	return nil
}
