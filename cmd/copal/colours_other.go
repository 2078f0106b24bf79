//go:build !windows

package main

import "io"

// knowsColours reports whether the terminal behind w takes the sequences of painter.
func knowsColours(io.Writer) bool { return true }
