// Package history tests the public API: moments, versions, snapshots and undo.
package history
