// Package format tests the public API: the bytes of the log: the golden store, and scripts that
// show the log beside its meaning.
package format
