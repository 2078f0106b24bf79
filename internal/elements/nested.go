package elements

import (
	"bytes"

	"github.com/copaldb/copal/internal/engine"
)

// Nested returns engine.ErrNested if now differs from was: the function of an update in a transaction
// has written the entry or element itself, so the new value was made from an outdated one. now and
// err are a second look at the entry, was and existed the first. Nested returns err if it is neither
// nil nor ErrNotFound, and otherwise nil.
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
