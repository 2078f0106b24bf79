// Package tail is the growing end of a log: files to which bytes are added, whatever these mean.
//
// A [Tail] is one file that grows. The files of one log share a [Tails]: the ring in which the newest bytes stand
// first, its draining, room on the disk, the rounds in which the files are synced, the mark that says how far
// they are, and the first failure, after which nothing is written any more.
//
// The log on top says what the bytes are, which file comes next, and what a crash may have left of them. It has
// the lock under which it appends, here called the appender's. The lock is held where a name ends in Locked, and
// for every field that the appender is said to own. docs/durability.md says what survives what.
//
// Locks, in order: the appender's; the one for draining or the one for syncing; the mark's. The lock of the
// rounds is a leaf.
package tail
