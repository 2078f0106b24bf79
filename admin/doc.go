// Package admin is for maintenance: it checks and repairs a store that no process has open, moves
// entries between stores unchanged, compares snapshots, and undoes changes.
package admin
