// Package collections tests the public API: hashes, lists, sets and sorted sets.
package collections
