// Package laps is memory that a log goes round in: a mapped region in which a byte has
// its place by its offset modulo the region's size.
//
// Only the appender stores; any goroutine loads meanwhile. There are no pointers to be trusted
// after a crash: the bytes at a place must be identified by a checksum that includes the offset.
//
// Readers against the next lap: the region is divided into blocks. The appender takes a block for a
// new lap under the lock of the block; a reader copies under it, shared, and looks whether the
// block still belongs to the lap it wants. If not, the bytes have been overwritten, and the
// appender promises that they are elsewhere by then.
package laps
