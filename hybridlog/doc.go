// Package hybridlog is an append-only log of bytes: written like a file, read like memory.
//
//	log, err := hybridlog.Open("events")              // a directory; created when missing
//	at, err := log.Append([]byte("hello"))            // survives kill -9 when Append returns
//	n, err := log.ReadAt(buf, int64(at))              // the bytes, at the offset they were given
//	err = log.View(at, 5, func(b []byte) error { … }) // the same, without a copy
//	for entry, err := range log.Entries(at) { … }     // the entries, one by one
//
// An [Address] is the offset of a byte, for ever: neither compaction nor trimming shifts it, and no
// offset is given twice. A read at an offset returns exactly the bytes that were written there,
// across any number of writes. In addition to the bytes the log keeps the end of each write, and
// checksums, which no reader sees.
//
// On the disk the log is a directory of segments. The bytes are in plain files, as they were
// written, so that cat shows them; a second file for each has its checksums and boundaries. A write
// is copied into the ring, a mapped file, and needs no system call. Long writes, and all writes
// where files cannot be mapped, go to the file as usual. A read is a copy from the mapped segment.
// Neither cost depends on how long the log is.
//
// # Durability
//
// A write that has returned survives the death of the process. The [SyncPolicy] says when it
// survives a power cut:
//
//   - with [NoSync], after [Log.Sync] or Close; bytes in full segments, a little after these are
//     full;
//   - with [SyncEverySecond], a second later;
//   - with [AlwaysSync], at once; writers that wait share a sync.
//
// After a crash the log holds a prefix of the writes, each of them whole.
//
// # When something fails
//
// A write for which there is no room returns [ErrNoSpace], and the log goes on when there is room
// again. After any other failure of a write or a sync the state of the disk is unknown. The log
// then refuses writes with the cause until it is opened again ([ErrReadOnly]), and can still be
// read. It does not try a failed sync again. It never returns other bytes than those written: it
// verifies a block when it is first read and again after a minute, and a [CorruptError] names the
// place of a damaged block.
//
// # Space
//
// [Log.Trim] gives up the bytes before an address. Compaction joins the small segments that crashes
// leave, and copies the rest of a segment that is mostly trimmed. It runs by itself, see
// [CompactEvery] and [CompactFragments].
//
// Any number of goroutines may call all methods at once. One process writes; others may open the
// log with [ReadOnly].
//
// # Locks
//
// In the order in which they are taken: Log.housekeeping (one compaction or trimming at a time),
// Log.mu (the tail), Log.manifestMu, the locks of Log.tails, segment.opening. Log.refreshMu of
// read-only logs is a leaf.
//
// A reader takes only segment.opening, once for each segment, and is inside the gate while it
// reads. A trimming or compaction that removes segments waits until all readers have left. No
// goroutine holds a lock while a function of the caller runs, except OnError's.
package hybridlog
