// Package hybridlog is an append-only log of bytes: written like a file, read like memory.
//
//	log, err := hybridlog.Open("events")              // a directory; created when missing
//	at, err := log.Append([]byte("hello"))            // survives kill -9 when Append returns
//	n, err := log.ReadAt(buf, int64(at))              // the bytes, at the offset they were given
//	err = log.View(at, 5, func(b []byte) error { … }) // the same, without a copy
//	for entry, err := range log.Entries(at) { … }     // what was appended, one by one
//
// An [Address] is the offset of a byte, for ever: neither compaction nor trimming shifts it, and none is
// given twice. What is read at an offset is exactly what was written there, across any number of writes;
// beside it the log keeps where each write ended, and checksums, which no reader ever sees.
//
// On the disk the log is a directory of segments. The bytes stand in plain files, as they were written, so that
// cat shows them; checksums and boundaries stand in a file beside each. A write is copied into the ring, a
// mapped file, and needs no call of the system; long ones, and all where files cannot be mapped, are written as
// to any file. A read is a copy from the mapped segment. The cost of neither depends on how long the log is.
//
// # What survives
//
// A write that has returned survives the death of the process. When it survives a power cut is the
// [SyncPolicy]: with [NoSync], after [Log.Sync] or Close, and what stands in full segments a little after they
// are full; with [SyncEverySecond], a second later; with [AlwaysSync], at once, and writers that wait share a
// sync. What is found after a crash is always what some prefix of the writes had made, each of them whole.
//
// # When something fails
//
// A write for which there is no room returns [ErrNoSpace], and the log goes on when there is room again. After
// any other failure of a write or of a sync it is not known what is on the disk: the log refuses writes with
// the cause until it is opened anew ([ErrReadOnly]), and goes on being read. A sync that failed is not tried
// again. Bytes that are not what was written are never returned: a block is verified when it is first read and
// again after a minute, and a [CorruptError] says where it is damaged.
//
// # Space
//
// [Log.Trim] gives up what stands before an address. Compaction joins the small segments that crashes have
// left, and copies what is left of a segment that is mostly trimmed; it runs by itself, see [CompactEvery] and
// [CompactFragments].
//
// All methods may be called by many goroutines at once. One process writes; others may open the log with [ReadOnly].
//
// # Locks
//
// In the order in which they are taken: Log.housekeeping (one compaction or trimming at a time), Log.mu (the
// tail), Log.manifestMu, those of Log.tails, segment.opening; Log.refreshMu of read-only logs is a leaf.
// Readers take none, but that of opening once for each segment, and are inside the gate while they read; who
// takes segments away waits until they have left. Nobody holds a lock while a function of the caller runs, but
// OnError's.
package hybridlog
