// Package fields compares two values by field, if they are JSON.
//
// Values are equal if they say the same: the order of an object's members, white space and the spelling of a string
// do not count. Numbers are equal if they are spelt alike, for 1.0 and 1 may be meant to differ. Of an object each
// member is compared, of an array each element, by its place behind those that both arrays begin with and before
// those that both end with.
package fields
