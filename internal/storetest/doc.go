// Package storetest is what tests of the rooms above the engine share: a store without goroutines
// on a disk in memory, and what is done to it.
package storetest
