// Package files has the common part of the small files of both logs: swapping one file for another
// in one step, and the mark, in two slots, so that a torn write leaves the one before.
package files
