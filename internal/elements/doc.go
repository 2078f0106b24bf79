// Package elements has the verbs of collections in bytes for the engine: of its present state, a view or a
// transaction. It knows which elements a hash, a list, a set and a sorted set are made of. Typed handles encode and
// decode above it, and the engine below knows sub-keys and their order.
//
//	hash         the field                          its value
//	set          the member                         nothing
//	sorted set   'm' + member                       its score
//	             's' + sort key of score + member   nothing
//	list         a position (package positions)     the element
//	stream       as a hash
package elements
