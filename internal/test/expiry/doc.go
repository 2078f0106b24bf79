// Package expiry tests the public API: deadlines, and the events of entries that expire.
package expiry
