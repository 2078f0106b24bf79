// Package promoted distinguishes a struct's own methods from those it only has because it embeds a
// type that declares them.
//
// The difference decides whether a value is kept: in struct{ time.Time; N int }
// the promoted MarshalText writes the time and drops N without a word.
package promoted
