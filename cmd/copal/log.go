package main

import (
	"bufio"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
)

const logHelp = `Print what an entry was, version by version, the newest first; or without KEY all changes
of the store, in their order, and at the end how many there were.

Of an entry each version begins with its time, the number of its record, and what
happened: set, del or expired. Below stands what has changed since the version before,
field by field if both are JSON:
    Age: 28 → 29          another value
  + Tags[2]: "new"        there now, and not before
  - Nick: "al"            there before, and not now
A time or a number goes behind --at, or to copal restore, as it stands.

--since MOMENT tells what came after that; see copal --help. --limit prints the newest so
many; on a terminal it is 50 if not given. --prefix tells of the changes of entries whose
keys begin so.

What is told is what the log still has: all since the store was made, or since it was
compacted, or as much as copal history says is kept.

With --json each line is {"seq":…,"time":"…","op":"set","key":…,"value":…} as of copal
watch, and of an entry "changed":[{"field":"Age","before":28,"after":29}]; a deadline that
came without a record has no "seq". The last line of a store is {"totals":[…]}.`

const logExample = `  copal log app.db users:alice
  copal log app.db --since "1 hour ago"
  copal log app.db --since 2026-11-24 --prefix users: --json`

// terminalLimit is how many changes a terminal gets unless it asks for more.
const terminalLimit = 50

// logFlags say what is told, and how.
type logFlags struct {
	since  *momentFlag
	prefix string
	quoted bool
	json   bool
	limit  int64 // negative for none
}

func newLog(a *app) *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:               "log DIR [KEY]",
		Short:             "Tell what an entry was before, or what has changed",
		Long:              logHelp,
		Example:           logExample,
		Args:              arguments(1, 2),
		ValidArgsFunction: a.completeKey(1),
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		words := append(args[1:len(args):len(args)], f.prefix)
		keys, err := parseKeys(words, f.quoted)
		switch {
		case err != nil:
			return err
		case len(args) == 2 && f.prefix != "":
			return usageError{"--prefix is for the log of a store, and this one is of the entry " + showKey(keys[0])}
		case f.limit < 0:
			return usageError{"--limit: the number of changes cannot be negative"}
		case !cmd.Flags().Changed("limit"):
			f.limit = a.defaultLimit(f.json)
		}
		if a.host == nil {
			defer a.catchSignals()()
		}
		return a.view(args[0], func(db *copal.DB) error {
			if len(args) == 2 {
				return a.logEntry(db, keys[0], &f, out)
			}
			return a.logStore(db, keys[0], &f, out)
		})
	})
	cmd.Flags().Int64VarP(&f.limit, "limit", "n", 0, "print the newest so many")
	f.since = a.addMoment(cmd, "since", "tell what came after this `MOMENT`, such as 10m or \"2 days ago\"")
	cmd.Flags().StringVarP(&f.prefix, "prefix", "p", "", "tell of entries whose keys begin with this")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a line of JSON for each change")
	cmd.Flags().BoolVarP(&f.quoted, "quoted", "Q", false, "read KEY and --prefix as ls shows a key: a Go string literal if it begins with \"")
	return cmd
}

// defaultLimit is how many changes are printed where nothing is said.
func (a *app) defaultLimit(asJSON bool) int64 {
	if isTerminal(a.stdout) && !asJSON {
		return terminalLimit
	}
	return -1
}

// showWhen is the time and the number of a record, as a person reads them.
func showWhen(paint painter, at time.Time, seq uint64) string {
	number := "—"
	if seq > 0 {
		number = fmt.Sprintf("#%d", seq)
	}
	return paint.paint(styleDim, at.Format("2006-01-02 15:04:05.000")+"  "+fmt.Sprintf("%-8s", number))
}

// tellMore says on a terminal that there is more than was printed.
func (f *logFlags) tellMore(a *app, out *bufio.Writer, what string) {
	if !f.json && isTerminal(a.stdout) {
		fmt.Fprintln(out, painterFor(a.stdout).paint(styleDim, what+": --limit shows more"))
	}
}
