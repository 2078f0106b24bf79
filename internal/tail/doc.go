// Package tail is the growing end of a log: files to which bytes are added, whatever these mean.
//
// A [Tail] is one file that grows. The files of one log share a [Tails]: the ring that has the
// newest bytes first, its draining, room on the disk, the rounds in which the files are synced, the
// mark that says how far they are, and the first failure, after which nothing is written any more.
// An error after which the state of the disk is unknown is such a failure. With any other error the
// files are those of before, and the next write tries again.
//
// The log above knows the meaning of the bytes, chooses the next file, and judges the state after a
// crash. It has the lock under which it appends, here called the appender's. The lock is held where
// a name ends in Locked, and for every field that the appender is said to own. docs/durability.md
// lists which writes survive which failure.
//
// Locks, in order: the appender's; the one for draining or the one for syncing; the mark's. The lock of the
// rounds is a leaf.
package tail
