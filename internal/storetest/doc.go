// Package storetest is shared by the tests of the packages above the engine: a store without
// goroutines on a disk in memory, and helpers that write to it.
package storetest
