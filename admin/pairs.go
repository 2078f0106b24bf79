package admin

import (
	"bytes"
	"cmp"
	"errors"
	"iter"

	"github.com/copaldb/copal"
)

// pair is the elements of two walks with the same name; one of them may be nil.
type pair[T any] struct{ a, b *T }

// pairs goes through two walks, each in the order of its names, and yields the pair of each name.
// An error comes with the pair of its name. An error without a name comes by itself, and ends the
// walk if its snapshot can no longer be read.
func pairs[T any](a, b iter.Seq2[T, error], name func(*T) []byte) iter.Seq2[pair[T], error] {
	return func(yield func(pair[T], error) bool) {
		x, y := begin(a, name), begin(b, name)
		defer x.stop()
		defer y.stop()
		for x.now != nil || y.now != nil {
			order := x.compare(y)
			var both pair[T]
			var errA, errB error
			if order <= 0 {
				both.a, errA = x.take()
			}
			if order >= 0 {
				both.b, errB = y.take()
			}
			err := cmp.Or(errA, errB)
			if !yield(both, err) || errors.Is(err, copal.ErrClosed) || errors.Is(err, copal.ErrSnapshotLost) {
				return
			}
		}
	}
}

// walk is a walk, at one place of it.
type walk[T any] struct {
	pull func() (T, error, bool)
	stop func()
	name func(*T) []byte
	now  *T // nil after the end
	err  error
}

func begin[T any](all iter.Seq2[T, error], name func(*T) []byte) *walk[T] {
	w := &walk[T]{name: name}
	w.pull, w.stop = iter.Pull2(all)
	w.next()
	return w
}

func (w *walk[T]) next() {
	now, err, ok := w.pull()
	if w.now, w.err = &now, err; !ok {
		w.now = nil
	}
}

// take returns the present element of the walk, and moves to the next.
func (w *walk[T]) take() (*T, error) {
	now, err := w.now, w.err
	w.next()
	return now, err
}

// compare compares the places of two walks: negative if this one comes first.
func (w *walk[T]) compare(o *walk[T]) int {
	switch {
	case w.now == nil:
		return 1
	case o.now == nil:
		return -1
	}
	return bytes.Compare(w.name(w.now), w.name(o.now))
}
