// Package types tests the public API: keys and values of every type, codecs, and typed and raw
// access to one entry.
package types
