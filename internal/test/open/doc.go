// Package open tests the public API: opening and closing stores and maps: directories, locks,
// options, read-only stores, checks, compaction.
package open
