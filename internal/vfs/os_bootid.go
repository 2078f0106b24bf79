//go:build !linux && !darwin

package vfs

// Platforms that do not number their boots cheaply. A time of boot would not do:
// it moves when the clock is set.
func bootID() string { return "" }
