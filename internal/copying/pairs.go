package copying

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/copaldb/copal/admin"
)

// pair is the entries of the source and the destination under a key; one of them may be nil.
type pair struct{ from, to *admin.Entry }

func (p *pair) key() []byte {
	if p.from != nil {
		return p.from.Key
	}
	return p.to.Key
}

// pairs goes through two views, each in the order of its keys. An error of one is the last that it yields. The position
// of a copy is no entry.
func pairs(a, b view, from, to []byte) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		nextA, stopA := iter.Pull2(entriesOf(a, from, to))
		defer stopA()
		nextB, stopB := iter.Pull2(entriesOf(b, from, to))
		defer stopB()
		next := func(pull func() (admin.Entry, error, bool)) (*admin.Entry, error) {
			e, err, ok := pull()
			if ok && err == nil && bytes.Equal(e.Key, positionKey) {
				e, err, ok = pull()
			}
			if err != nil && e.Key != nil {
				err = fmt.Errorf("key %q: %w", e.Key, err)
			}
			if !ok || err != nil {
				return nil, err
			}
			return &e, nil
		}
		x, err := next(nextA)
		y, failed := next(nextB)
		for {
			if err == nil {
				err = failed
			}
			if err != nil {
				yield(pair{}, err)
				return
			}
			if x == nil && y == nil {
				return
			}
			order := 0
			switch {
			case x == nil:
				order = 1
			case y == nil:
				order = -1
			default:
				order = bytes.Compare(x.Key, y.Key)
			}
			var p pair
			if order <= 0 {
				p.from = x
			}
			if order >= 0 {
				p.to = y
			}
			if !yield(p, nil) {
				return
			}
			if order <= 0 {
				x, err = next(nextA)
			}
			if order >= 0 {
				y, failed = next(nextB)
			}
		}
	}
}
