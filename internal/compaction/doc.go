// Package compaction gives back the space of what counts no more: it chooses runs of segments, copies what counts of
// them, and keeps the log at a length that befits its entries.
package compaction
