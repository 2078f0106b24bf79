// Package compaction gives back the space of dead records: it chooses runs of segments, copies
// their live records, and keeps the length of the log in proportion to its entries.
package compaction
