// Package scratch has a store in memory for entries of servers, so that they are read and written
// as those of a directory.
package scratch
