// Package built says what a program was built from.
package built
