//go:build !windows

package cli

import (
	"io"
	"os"
)

// knowsColours reports whether the terminal of w takes the sequences of painter.
func knowsColours(io.Writer) bool { return os.Getenv("TERM") != "" }
