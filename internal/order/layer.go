package order

import (
	"bytes"
	"slices"
)

// Layer is a set of marks. It does not change while it is read.
type Layer interface {
	// Walk begins at the first mark whose key is not before from, in the direction of the walk. With nil it
	// begins at the first of all.
	Walk(from []byte, down bool) Cursor
	// Before returns the number of keys that the marks before this key add to those that the layers below show.
	Before(key []byte) (adds int64, err error)
	// Sure reports whether Before is right: each mark was made with knowledge of the layers below.
	Sure() bool
	// Middle returns a key strictly between the two, with about as many marks of the layer on either side. It
	// returns nil when there are few.
	Middle(low, high []byte) ([]byte, error)
}

// Cursor yields the marks of a walk, each key once.
type Cursor interface {
	// Next goes to the next mark. It returns false at the end, and after a failed read, whose error Err
	// returns.
	Next() bool
	// Key returns the mark's key. The bytes are valid until the next call of Next.
	Key() []byte
	// Gone reports whether the mark is of a key that has gone.
	Gone() bool
	// Fresh reports whether the layers below those of the walk do not show the key, as far as is known.
	Fresh() bool
	Err() error
}

// Walk goes through a stack of layers, the newest first, and yields the mark of the newest that has one for the
// key. Marks that keys are gone are yielded if gone is true.
func Walk(layers []Layer, from []byte, down, gone bool) Cursor {
	all := make([]Cursor, len(layers))
	for i, l := range layers {
		all[i] = l.Walk(from, down)
	}
	return Merge(all, down, gone)
}

// Before counts the keys before one that a stack of layers shows, the newest first. ok is false if one of the
// layers is not sure. At most one block of each run is read.
func Before(layers []Layer, key []byte) (n int64, ok bool, err error) {
	for _, l := range layers {
		if !l.Sure() {
			return 0, false, nil
		}
		adds, err := l.Before(key)
		if err != nil {
			return 0, false, err
		}
		n += adds
	}
	return n, true, nil
}

// Place is a key, and the number of keys that a stack of layers shows before it.
type Place struct {
	Key    []byte
	Before int64
}

// Find looks between two keys for the place before which n keys are shown. It returns a place with at most n
// before it and one with at least n, or the two keys; few keys are between them.
func Find(layers []Layer, low, high []byte, n int64) (from, to Place, err error) {
	if from.Before, _, err = Before(layers, low); err == nil {
		to.Before, _, err = Before(layers, high)
	}
	from.Key, to.Key = low, high
	for _, l := range layers {
		for err == nil {
			var at Place
			if at.Key, err = l.Middle(from.Key, to.Key); at.Key == nil || err != nil {
				break
			}
			if at.Before, _, err = Before(layers, at.Key); at.Before <= n {
				from = at
			} else {
				to = at
			}
		}
	}
	return from, to, err
}

// Merge is Walk for cursors that go in the same direction.
func Merge(all []Cursor, down, gone bool) Cursor {
	if len(all) == 1 {
		return &walk{all: all, down: down, gone: gone}
	}
	return &walk{all: all, ahead: slices.Clone(all), behind: slices.Clone(all), down: down, gone: gone}
}

// walk merges cursors.
type walk struct {
	all    []Cursor // newest first
	ahead  []Cursor // those not at their end, in the same order
	behind []Cursor // those whose mark was yielded, or hidden by a newer one; all of them at first
	down   bool
	gone   bool
	at     Cursor
	moved  bool   // only at has moved, and has a mark
	rival  Cursor // the other cursor with the next mark, nil for none
	err    error
}

func (w *walk) Next() bool {
	for w.err == nil {
		if !w.step() {
			return false
		}
		if w.gone || !w.at.Gone() {
			return true
		}
	}
	return false
}

// step goes to the next key.
func (w *walk) step() bool {
	if len(w.all) == 1 {
		w.at = w.all[0]
		if w.at.Next() {
			return true
		}
		w.err = w.at.Err()
		return false
	}
	if !w.advance() {
		return false
	}
	if w.at != nil && w.leads() {
		return true
	}
	w.at, w.rival = nil, nil
	for _, c := range w.ahead {
		order := -1
		if w.at != nil {
			order = w.compare(c.Key(), w.at.Key())
		}
		switch {
		case order < 0:
			w.at, w.behind = c, append(w.behind[:0], c)
		case order == 0: // it is hidden
			w.behind = append(w.behind, c)
		}
	}
	if len(w.behind) == 1 {
		w.findRival()
	}
	return w.at != nil
}

// leads reports whether the first cursor is first again, and no other has the same key. Usually one has most of
// the keys.
func (w *walk) leads() bool {
	if w.rival == nil || !w.moved || w.compare(w.at.Key(), w.rival.Key()) >= 0 {
		return false
	}
	w.behind = append(w.behind, w.at)
	return true
}

func (w *walk) findRival() {
	for _, c := range w.ahead {
		if c != w.at && (w.rival == nil || w.compare(c.Key(), w.rival.Key()) < 0) {
			w.rival = c
		}
	}
}

// advance moves the cursors that are behind.
func (w *walk) advance() bool {
	w.moved = len(w.behind) == 1
	for _, c := range w.behind {
		if c.Next() {
			continue
		}
		w.moved = false
		if w.err = c.Err(); w.err != nil {
			return false
		}
		w.ahead = slices.DeleteFunc(w.ahead, func(other Cursor) bool { return other == c })
	}
	w.behind = w.behind[:0]
	return true
}

func (w *walk) compare(a, b []byte) int {
	if w.down {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

func (w *walk) Key() []byte { return w.at.Key() }
func (w *walk) Gone() bool  { return w.at.Gone() }

// Fresh returns Fresh of the key's oldest mark. Below a walk that yields no marks of gone keys there are no
// layers.
func (w *walk) Fresh() bool {
	if !w.gone {
		return true
	}
	if len(w.all) == 1 {
		return w.at.Fresh()
	}
	return w.behind[len(w.behind)-1].Fresh()
}

func (w *walk) Err() error { return w.err }
