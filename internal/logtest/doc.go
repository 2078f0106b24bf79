// Package logtest is shared by the tests of the log and of the packages above it: files of a store
// made by hand and changed, a clock that the test moves, a disk with little room.
package logtest
