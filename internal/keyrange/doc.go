// Package keyrange is ranges of whole keys: of keys that are ordered by their bytes, or of the keys of a map that
// have another order. A range has a form as two arguments, in which a record deletes it and a server is asked for it.
package keyrange
