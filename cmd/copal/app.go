package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/seglog"
)

// app is one run of the command: where it reads and writes, and what went wrong on the way.
type app struct {
	ctx    context.Context // done when the user has had enough; see catchSignals
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	now    func() time.Time // the clock by which moments are meant

	host host // nil when the command stands alone

	started   bool // the command line was in order and a command runs
	onServers bool // the command works with stores on servers
	served    bool // its store is one
	copied    bool // it takes a copy of a store that was not closed
	fileMode  permissions

	own seglog.Unfinished // the work of the command, which needs no word of it; see unfinished.go

	collection func(*copal.CollectionError) // takes the collections that a walk over values comes by; nil for none

	mu       sync.Mutex           // guards what follows
	reported int                  // exit code of the first error that went to report
	places   []copal.CorruptError // where damage was reported
}

// host is what a command runs in that does not stand alone: it has a store, and somebody who
// answers questions.
type host interface {
	adapt(root *cobra.Command)
	view(f func(db *copal.DB) error) error
	update(f func(db *copal.DB) error, opts ...copal.Option) error
	confirm(question string) error
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{ctx: context.Background(), stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now}
}

// run carries out a command line and returns the exit code.
func (a *app) run(args []string) int {
	root := newRoot(a)
	root.SetArgs(allowNegative(args))
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteC()
	code := a.finish(cmd, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	if code == exitNotFound && a.reported != 0 { // what was not found may be what is damaged
		return a.reported
	}
	return cmp.Or(code, a.reported)
}

// finish tells the user about err and returns its exit code.
func (a *app) finish(cmd *cobra.Command, err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(silent)):
		return exitCode(err)
	case errors.As(err, new(failedLine)):
		line := failedLine(0)
		errors.As(err, &line)
		return int(line)
	case isClosedPipe(err):
		return exitError // whoever read the output has seen enough, and needs no message
	case !a.started && !errors.As(err, new(*fs.PathError)) || isUsage(err): // an error of a file is one of the output
		a.tell(err)
		fmt.Fprintf(a.stderr, "Run '%s' for usage.\n", a.helpFor(cmd))
		return exitUsage
	}
	a.tell(err)
	return exitCode(err)
}

// note tells the user something that is no error.
func (a *app) note(text string) {
	fmt.Fprintln(a.stderr, painterFor(a.stderr).paint(styleDim, "copal:"), plain(text))
}

func (a *app) tell(err error) {
	prefix := painterFor(a.stderr).paint(styleBad, "copal:")
	fmt.Fprintln(a.stderr, prefix, message(err))
}

// helpFor is the command that explains cmd.
func (a *app) helpFor(cmd *cobra.Command) string {
	if a.host == nil {
		return cmd.CommandPath() + " --help"
	}
	return strings.TrimSpace("help" + strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()))
}

// runs is the RunE of a command. An error before it is one of the command line.
func (a *app) runs(f func(args []string, out *bufio.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.needsDirectory(cmd, args); err != nil {
			return err
		}
		a.started = true
		out := bufio.NewWriterSize(a.stdout, 64<<10)
		err := f(args, out)
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
		return err
	}
}

// report is the store's error handler: it prints err and makes the exit code tell of it, unless nothing is lost.
func (a *app) report(err error) {
	if c := (*copal.CollectionError)(nil); errors.As(err, &c) && a.collection != nil { // from a walk, in its goroutine
		a.collection(c)
		return
	}
	if u := (*seglog.UnfinishedError)(nil); errors.As(err, &u) && u.Unfinished == a.own {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.toldLocked(err) {
		a.tell(err)
	}
	clock := (*seglog.ClockBehindError)(nil)
	if !errors.Is(err, copal.ErrRebuilt) && !errors.Is(err, copal.ErrUnfinished) && !errors.As(err, &clock) { // none is an error of the command
		a.reported = cmp.Or(a.reported, exitCode(err))
	}
}

// toldLocked reports whether an error says of a place that is damaged what the user knows, and notes the place. Each
// entry that a walk comes by may say so of the same place.
func (a *app) toldLocked(err error) bool {
	var c *copal.CorruptError
	if !errors.As(err, &c) {
		return false
	}
	told := slices.ContainsFunc(a.places, func(t copal.CorruptError) bool {
		return t.File == c.File && t.Offset == c.Offset && strings.HasPrefix(t.Reason, c.Reason)
	})
	a.places = append(a.places, *c)
	return told && err == error(c) // else it names a key
}

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
