package engine

import "github.com/copaldb/copal/internal/span"

// Span is a range of sort keys, and the direction of a walk over it.
type Span = span.Span

// PrefixSpan returns the span of the keys that begin with prefix.
func PrefixSpan(prefix []byte) Span { return span.Prefix(prefix) }

type bounded = span.Bounded

// sortedCursor is a keyCursor.
type sortedCursor struct{ *span.Sorted }

func (sortedCursor) close() {}

// sortedKeys sorts the keys that each passes to f, as span.Sort does.
func sortedKeys(most int, of Span, each func(first bool, f func(sortKey []byte) error) error) sortedCursor {
	return sortedCursor{span.Sort(most, of, each)}
}
