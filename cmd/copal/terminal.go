package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a person is at the other end of stream, which is one of the command's.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// style is how a word stands out on a terminal: a sequence that begins it.
type style string

const (
	styleKey  style = "\x1b[36m" // cyan
	styleGood style = "\x1b[32m" // green
	styleBad  style = "\x1b[31m" // red
	styleDim  style = "\x1b[2m"
)

const styleEnd = "\x1b[0m"

// painter gives words a style, or leaves them alone.
type painter bool

// painterFor paints what a person reads, if it is not against colours and the terminal
// knows them: see https://no-color.org.
func painterFor(w io.Writer) painter {
	return painter(os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w) && knowsColours(w))
}

func (p painter) paint(s style, word string) string {
	if !p {
		return word
	}
	return string(s) + word + styleEnd
}
