// Package glob compares texts with the patterns of Redis: * is any bytes, ? is one byte, [a-z] and [^a-z] are one byte
// of some, and \ takes the special meaning from the next byte. No byte, such as a slash, is special otherwise.
//
// Patterns and texts come from strangers, so nothing is tried twice: the parts between the stars are found one after
// the other, each at its leftmost place. A part without ? and [ is found by [bytes.Index], a part of up to 64 bytes
// by comparing it at each place, and a longer one by 64 of its bytes in one step.
package glob
