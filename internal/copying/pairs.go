package copying

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/pairs"
)

// pair is the entries of the source, A, and of the destination, B, under a key; one of them may be nil.
type pair = pairs.Pair[admin.Entry]

func keyOf(p *pair) []byte {
	if p.A != nil {
		return p.A.Key
	}
	return p.B.Key
}

// paired yields the pairs of two views in the order of their keys. An error is the last that it
// yields. The position of a copy is no entry.
func paired(a, b view, from, to []byte) iter.Seq2[pair, error] {
	entries := func(v view) iter.Seq2[admin.Entry, error] {
		return func(yield func(admin.Entry, error) bool) {
			for e, err := range entriesOf(v, from, to) {
				switch {
				case err == nil && bytes.Equal(e.Key, positionKey):
					continue
				case err != nil && e.Key != nil:
					err = fmt.Errorf("key %q: %w", e.Key, err)
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
	return pairs.Of(entries(a), entries(b), func(e *admin.Entry) []byte { return e.Key }, func(error) bool { return true })
}
