// Package positions makes sort keys for the elements of a list, between any two that are there.
//
// A position is digits of eight bytes, the first of them highest, and positions compare as their
// bytes do. At the ends of a list the next one has one digit, which is one more than the last
// element's, or one less than the first's. Between two neighbours without a number between them a
// position has the digits of the lower one, and one more, in which there is room for whole
// stretches on either side: elements inserted there one after the other, or one before the other,
// need no third digit. Only halving the gap between the two latest, again and again, uses room up,
// a bit each time, and lengthens positions by a digit each 32 times.
//
// So without a bound there is always room, and within one there is none at last: then the caller gives a stretch of
// neighbours new positions.
package positions
