package pairs

import (
	"bytes"
	"cmp"
	"iter"
)

// Pair is the elements of two walks with the same name. One of them may be nil.
type Pair[T any] struct{ A, B *T }

// Of yields the pair of each name of two walks, each of which is in bytewise order of its names. An
// error comes with the pair of its name. It is the last pair if ends returns true for it. If both
// fail at one name, the error of a is yielded.
func Of[T any](a, b iter.Seq2[T, error], name func(*T) []byte, ends func(error) bool) iter.Seq2[Pair[T], error] {
	return func(yield func(Pair[T], error) bool) {
		x, y := begin(a, name), begin(b, name)
		defer x.stop()
		defer y.stop()
		for x.now != nil || y.now != nil {
			order := x.compare(y)
			var both Pair[T]
			var errA, errB error
			if order <= 0 {
				both.A, errA = x.take()
			}
			if order >= 0 {
				both.B, errB = y.take()
			}
			err := cmp.Or(errA, errB)
			if !yield(both, err) || err != nil && ends(err) {
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

// compare compares the places of two walks. It is negative if this one comes first.
func (w *walk[T]) compare(o *walk[T]) int {
	switch {
	case w.now == nil:
		return 1
	case o.now == nil:
		return -1
	}
	return bytes.Compare(w.name(w.now), w.name(o.now))
}
