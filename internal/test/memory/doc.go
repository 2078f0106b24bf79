// Package memory tests the public API: values that memory shows before the log has them, or in
// place of the log's.
package memory
