// Package detach makes values that share memory with others their holder's own: it copies the
// targets of their pointers, by functions that are compiled once for each type.
package detach
