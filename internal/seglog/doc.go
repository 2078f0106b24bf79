// Package seglog is one order of records, in segments: it appends them, gives each its number, keeps the newest in a
// ring, drains and syncs that, and finds out after a crash which of them count.
//
// It knows bytes, not meaning. A record has a key and a value, and what either says is the business of the
// rooms above, which are handed records in their order: by recovery (Recovery), behind another process
// (Tailer), behind those who append (Cursor). A Segment stays readable for as long as somebody holds it. The
// files beside the segments are the manifest, which names them, the mark, which says how far they were synced,
// and the ring.
//
// docs/durability.md says what survives what; docs/format.md what stands in the files.
package seglog
