// Package upkeep looks after the files of a store: check, repair, backup, compaction, history,
// counts and types.
package upkeep
