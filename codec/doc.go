// Package codec turns Go values into the bytes of a record and back.
//
// A codec is compiled once per Go type. It refuses types and values that it cannot keep exactly: a
// type when it is compiled, and a single value when it is written. It never stores a value that
// would be read back as another.
package codec
