// Package linear tests that what concurrent callers of a map see is one order of its operations.
package linear
