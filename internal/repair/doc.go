// Package repair checks and repairs a log. Check reads every byte of it, also while a process
// writes, and goes on after damage. Repair makes a new store of every intact record. Both read
// files as package seglog does, and know keys and values only as bytes of records.
package repair
