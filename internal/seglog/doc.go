// Package seglog is the files of one log: records in segments, one after the other, the manifest
// that names the segments, the mark that says how far they were synced, and the ring where the
// newest records stand first. It reads them and writes the small ones; it says what the bytes are.
// What follows from that is decided by those who open a log, check or repair it.
package seglog
