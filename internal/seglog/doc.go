// Package seglog is one order of records, in segments: it appends them, gives each its number,
// keeps the newest in a ring, drains and syncs that, and finds the valid ones after a crash.
//
// It knows bytes, not meaning. The packages above know the meaning of a record's key and value, and
// get records in their order: by recovery (Recovery), while another process appends (Tailer), or
// while this one does (Cursor). A Segment stays readable while it is pinned. The other files are
// the manifest, which names the segments, the mark, up to which they were synced, and the ring.
//
// docs/durability.md lists the writes that survive each failure; docs/format.md has the contents of
// the files.
package seglog
