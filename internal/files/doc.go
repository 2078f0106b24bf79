// Package files is what the small files of a log have in common, whatever the log holds: how one is
// swapped for another in one step, and the mark, of which a torn write leaves the one before.
package files
