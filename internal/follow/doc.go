// Package follow shows in a read-only store what another process writes.
package follow
