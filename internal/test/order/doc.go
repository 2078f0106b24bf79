// Package order tests the public API: walks, in order and without one.
package order
