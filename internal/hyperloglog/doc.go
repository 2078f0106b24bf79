// Package hyperloglog reads and writes sketches in the form of Redis.
//
// A HyperLogLog estimates how many different elements it was given, in 12 KiB at most. An element's
// hash chooses one of 16,384 registers by 14 bits; the register keeps the greatest rank of the others: the place of
// the lowest bit that is 1 (P. Flajolet and others, HyperLogLog, 2007). It is a string in Redis's format:
//
//	0   "HYLL"
//	4   the encoding: 0 dense, 1 sparse
//	5   three zeros
//	8   the estimate, 8 bytes, lowest first; if the highest bit is 1 it is out of date
//	16  the registers. Dense: 6 bits each, the lowest bits of a byte first.
//	    Sparse: runs of registers, in their order:
//	    00nnnnnn            n+1 registers are 0
//	    01nnnnnn nnnnnnnn   n+1 registers are 0, the highest bits of n first
//	    1vvvvvnn            n+1 registers are v+1
//
// It is dense once that is shorter, or a register is over 32.
package hyperloglog
