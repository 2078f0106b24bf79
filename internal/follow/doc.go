// Package follow shows in a read-only store the writes of another process.
package follow
