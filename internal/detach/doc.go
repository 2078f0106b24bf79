// Package detach makes values that share memory with others their holder's own: it copies what they
// point to, by functions that are compiled once for each type.
package detach
