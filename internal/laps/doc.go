// Package laps is memory that a log goes round in: a mapped region in which a byte has
// its place by its offset modulo the region's size.
//
// The appender, alone, stores; anybody loads meanwhile. There are no pointers to be trusted after a
// crash: what the bytes at a place are must be told by a checksum that the offset is part of.
//
// Readers against the next lap: the region is divided into blocks. The appender takes
// a block for a new lap under the lock of the block; a reader copies under it,
// shared, and looks whether the block still belongs to the lap it wants. If not, the
// bytes have been overwritten, and it is the appender's promise that they stand elsewhere by then.
package laps
