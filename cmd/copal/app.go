package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// app is one run of the command: where it writes, and what went wrong on the way.
type app struct {
	stdout io.Writer
	stderr io.Writer

	started bool // the command line was in order and a command runs

	mu       sync.Mutex // guards reported
	reported int        // exit code of the first error that went to report
}

// run carries out a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	code := a.finish(cmd, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(code, a.reported)
}

// finish tells the user about err and returns its exit code.
func (a *app) finish(cmd *cobra.Command, err error) int {
	switch {
	case err == nil:
		return exitOK
	case isClosedPipe(err):
		return exitError // whoever read the output has seen enough, and needs no message
	case !a.started || isUsage(err):
		fmt.Fprintf(a.stderr, "copal: %s\nRun '%s --help' for usage.\n", message(err), cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintln(a.stderr, "copal: "+message(err))
	return exitCode(err)
}

// runs is the RunE of a command. An error before it is one of the command line.
func (a *app) runs(f func(args []string, out *bufio.Writer) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		a.started = true
		out := bufio.NewWriterSize(a.stdout, 64<<10)
		err := f(args, out)
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
		return err
	}
}

// report is the store's error handler: it prints err and makes the exit code tell of it.
func (a *app) report(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintln(a.stderr, "copal: "+message(err))
	a.reported = cmp.Or(a.reported, exitCode(err))
}

// isTerminal reports whether a person reads what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
