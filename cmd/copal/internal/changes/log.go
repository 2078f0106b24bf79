package changes

import (
	"bufio"
	"fmt"
	"time"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// terminalLimit is the number of changes that a terminal gets by default.
const terminalLimit = 50

// Log has the flags of log.
type Log struct {
	Since  *cli.MomentFlag
	Prefix string
	Quoted bool
	JSON   bool
	Limit  int64 // negative for none
}

// DefaultLimit returns the number of changes that are printed without --limit.
func DefaultLimit(a *cli.App, asJSON bool) int64 {
	if cli.IsTerminal(a.Stdout) && !asJSON {
		return terminalLimit
	}
	return -1
}

// showWhen returns the time and the number of a record, for a person.
func showWhen(paint cli.Painter, at time.Time, seq uint64) string {
	number := "—"
	if seq > 0 {
		number = fmt.Sprintf("#%d", seq)
	}
	return paint.Paint(cli.StyleDim, at.Format("2006-01-02 15:04:05.000")+"  "+fmt.Sprintf("%-8s", number))
}

// tellMore prints a note on a terminal that --limit has cut the output.
func (f *Log) tellMore(a *cli.App, out *bufio.Writer, what string) {
	if !f.JSON && cli.IsTerminal(a.Stdout) {
		fmt.Fprintln(out, cli.PainterFor(a.Stdout).Paint(cli.StyleDim, what+": --limit shows more"))
	}
}
