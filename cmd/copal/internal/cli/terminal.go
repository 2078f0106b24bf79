package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether a person is at the other end of stream, which is one of the command's.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Style is the sequence before a word that a terminal shows in a colour.
type Style string

const (
	StyleKey  Style = "\x1b[36m" // cyan
	StyleGood Style = "\x1b[32m" // green
	StyleBad  Style = "\x1b[31m" // red
	StyleDim  Style = "\x1b[2m"
)

const styleEnd = "\x1b[0m"

// Painter gives words a style, or leaves them alone.
type Painter bool

// PainterFor returns a painter that paints if a person reads w, and is not against colours, and the
// terminal knows them: see https://no-color.org.
func PainterFor(w io.Writer) Painter {
	return Painter(os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(w) && knowsColours(w))
}

// Paint returns a word in a style, or unchanged.
func (p Painter) Paint(s Style, word string) string {
	if !p {
		return word
	}
	return string(s) + word + styleEnd
}
