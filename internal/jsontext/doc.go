// Package jsontext reads and writes JSON as text: it finds the members of an object without decoding
// them, and compares values.
package jsontext
