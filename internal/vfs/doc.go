// Package vfs is the disk as the store sees it: a dozen operations, each of
// which a test can observe, fail, tear or undo.
//
// OS is the machine's file system and NewMem one in memory. For tests, a Mem that records knows the
// states that a killed process (ProcessCrash) and a power cut (PowerCuts) leave, and Inject makes
// the n-th operation of any FS fail.
//
// The store is correct when it is correct against this contract, which promises
// no more than POSIX and a journalling file system do:
//
//   - WriteAt reaches every other opener at once and the disk at some later
//     moment of the disk's choosing, in any order, in units of a sector;
//   - Sync makes the content of this file at the call survive a power cut;
//   - a created, linked, renamed or removed name survives a power cut only after
//     SyncDir of its directory;
//   - after a failed Sync nothing is known about the bytes written since the
//     last one that succeeded, and another Sync proves nothing.
package vfs
