// Package seglog is one order of records, in segments: it appends them, gives each its number, keeps the newest in a
// ring, drains and syncs that, and finds out after a crash which of them count.
//
// It knows bytes, not meaning. The rooms above know the meaning of a record's key and value, and get records in their
// order: by recovery (Recovery), behind another process (Tailer), behind the appends of this one (Cursor). A Segment
// stays readable as long as it is held. The files beside the segments are the manifest, which names them, the mark,
// which says how far they were synced, and the ring.
//
// docs/durability.md says which write survives which failure; docs/format.md has the contents of the files.
package seglog
