package admin

import (
	"bytes"
	"cmp"
	"errors"
	"iter"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/pairs"
)

// Two snapshots are compared by walking both in the order of their keys, an entry of each at a
// time. So it takes the memory of two walks, and compares the values themselves, not checksums.

// Difference is an entry that differs between two snapshots.
type Difference struct {
	Key  []byte
	A, B *Entry // the entry as each of them has it, nil for none
}

// Diff yields the entries with keys in [from, to) that differ between two snapshots, in bytewise
// order of their keys. nil is no bound. The snapshots may be of one store or of two.
//
// Entries are equal if value, codec, schema, content type and deadline are equal. Collections are
// equal if type, deadline and elements are: DiffElements yields the elements that differ. Seq and
// Time are not compared.
//
// An entry that cannot be read comes as an error, with its Key if that is known, and Diff goes on; the snapshots
// may differ in it or not. copal.ErrClosed and copal.ErrSnapshotLost are the last that it yields.
func Diff(a, b *copal.Snapshot, from, to []byte) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		for both, err := range pairs.Of(Entries(a, from, to), Entries(b, from, to), func(e *Entry) []byte { return e.Key }, ends) {
			d := Difference{A: both.A, B: both.B}
			d.Key = cmp.Or(d.A, d.B).Key
			same := false
			if err == nil {
				same, err = alike(a, b, &d)
			}
			if err != nil {
				d.A, d.B = nil, nil
			}
			if !same && !yield(d, err) {
				return
			}
		}
	}
}

// alike reports whether both have an entry, and in the same way.
func alike(a, b *copal.Snapshot, d *Difference) (bool, error) {
	if d.A == nil || d.B == nil || !d.A.sameBut(d.B) {
		return false, nil
	}
	if d.A.Collection == "" {
		return true, nil
	}
	if d.A.Elements != d.B.Elements {
		return false, nil
	}
	x, y := collectionIn(a, d.Key), collectionIn(b, d.Key)
	for both, err := range x.compared(y, x.of == engine.ListType) {
		if err != nil || !both.A.same(both.B) {
			return false, err
		}
	}
	return true, nil
}

// sameBut reports whether two entries are equal, except their elements.
func (e *Entry) sameBut(o *Entry) bool {
	return bytes.Equal(e.Value, o.Value) && e.Codec == o.Codec && e.Schema == o.Schema && e.Content == o.Content && e.Expires.Equal(o.Expires) && e.Collection == o.Collection
}

// ends reports whether an error of a walk means that its snapshot can no longer be read.
func ends(err error) bool {
	return errors.Is(err, copal.ErrClosed) || errors.Is(err, copal.ErrSnapshotLost)
}
