// Package fields compares two values by field, if they are JSON.
//
// Values are equal if they mean the same: the order of an object's members, white space and the
// spelling of a string do not count. Numbers are equal if they are spelt alike, for 1.0 and 1 may
// be meant to differ. Objects are compared by member. Arrays are compared by element, by position
// between the elements with which both begin and those with which both end.
package fields
