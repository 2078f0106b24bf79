// Package linear tests that concurrent callers of a map see one order of its operations.
package linear
