package elements

import (
	"bytes"

	"github.com/copaldb/copal/internal/engine"
)

// Nested returns the error of an update in a transaction whose function has written the entry or
// element itself: the new value was made from an outdated one. now and err are a second look at the
// entry, was is the first.
func Nested(now *engine.Entry, err error, was *engine.Entry, existed bool) error {
	switch {
	case err != nil && !isNotFound(err):
		return err
	case (err == nil) != existed:
		return engine.ErrNested
	case !existed || now.Same(was) && (now.Logged() || alike(now, was)):
		return nil
	}
	return engine.ErrNested
}

// alike reports whether two writes of a transaction store the same.
func alike(a, b *engine.Entry) bool {
	return a.Schema == b.Schema && a.Expiry() == b.Expiry() && bytes.Equal(a.Value, b.Value)
}
