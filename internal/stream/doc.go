// Package stream writes and reads one value piece by piece, of any length, with one part of it in
// memory.
//
// It is a room above the engine. The parts and the record that lists them are the same as of every
// large value.
package stream
