package cli

import (
	"bufio"
	"cmp"
	"context"
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

// App is one run of the command: its streams, and the errors on the way.
type App struct {
	Ctx    context.Context // done when the user interrupts; see CatchSignals
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Now    func() time.Time // the clock by which moments are meant

	Host host // nil for a command that runs alone

	started   bool // the command line was in order and a command runs
	onServers bool // the command works with stores on servers
	Served    bool // its store is one
	Copied    bool // it takes a copy of a store that was not closed
	FileMode  Permissions

	Own seglog.Unfinished // the work of the command, which needs no word of it; see unfinished.go

	Collection func(*copal.CollectionError) // takes the collections that a walk over values comes by; nil for none

	mu       sync.Mutex           // guards the fields below
	reported int                  // exit code of the first error that went to report
	places   []copal.CorruptError // where damage was reported
}

// host is the environment of a command that does not run alone. It has a store, and answers
// questions.
type host interface {
	Adapt(root *cobra.Command)
	View(f func(db *copal.DB) error) error
	Update(f func(db *copal.DB) error, opts ...copal.Option) error
	Confirm(question string) error
}

// NewApp returns a run that reads and writes the given streams.
func NewApp(stdin io.Reader, stdout, stderr io.Writer) *App {
	return &App{Ctx: context.Background(), Stdin: stdin, Stdout: stdout, Stderr: stderr, Now: time.Now}
}

// CarryOut runs the command of root that a command line names, and returns the exit code.
func (a *App) CarryOut(root *cobra.Command, args []string) int {
	root.SetArgs(allowNegative(args))
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	cmd, err := root.ExecuteC()
	code := a.finish(cmd, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	if code == ExitNotFound && a.reported != 0 { // the damage may be in the missing entry
		return a.reported
	}
	return cmp.Or(code, a.reported)
}

// finish prints err and returns its exit code.
func (a *App) finish(cmd *cobra.Command, err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, new(silent)):
		return exitCode(err)
	case errors.As(err, new(FailedLine)):
		line := FailedLine(0)
		errors.As(err, &line)
		return int(line)
	case isClosedPipe(err):
		return ExitError // the reader of the output has seen enough, and needs no message
	case !a.started && !errors.As(err, new(*fs.PathError)) || isUsage(err): // an error of a file comes from the output
		a.Tell(err)
		fmt.Fprintf(a.Stderr, "Run '%s' for usage.\n", a.helpFor(cmd))
		return ExitUsage
	}
	a.Tell(err)
	return exitCode(err)
}

// Note prints a message that is no error.
func (a *App) Note(text string) {
	fmt.Fprintln(a.Stderr, PainterFor(a.Stderr).Paint(StyleDim, "copal:"), Plain(text))
}

// Tell prints an error.
func (a *App) Tell(err error) {
	prefix := PainterFor(a.Stderr).Paint(StyleBad, "copal:")
	fmt.Fprintln(a.Stderr, prefix, Message(err))
}

// helpFor returns the command that explains cmd.
func (a *App) helpFor(cmd *cobra.Command) string {
	if a.Host == nil {
		return cmd.CommandPath() + " --help"
	}
	return strings.TrimSpace("help" + strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()))
}

// Runs returns the RunE of a command. An error before it is one of the command line.
func (a *App) Runs(f func(args []string, out *bufio.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.needsDirectory(cmd, args); err != nil {
			return err
		}
		a.started = true
		out := bufio.NewWriterSize(a.Stdout, 64<<10)
		err := f(args, out)
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
		return err
	}
}

// Report is the store's error handler: it prints err and sets the exit code, unless nothing is
// lost.
func (a *App) Report(err error) {
	if c := (*copal.CollectionError)(nil); errors.As(err, &c) && a.Collection != nil { // from a walk, in its goroutine
		a.Collection(c)
		return
	}
	if u := (*seglog.UnfinishedError)(nil); errors.As(err, &u) && u.Unfinished == a.Own {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.toldLocked(err) {
		a.Tell(err)
	}
	clock := (*seglog.ClockBehindError)(nil)
	if !errors.Is(err, copal.ErrRebuilt) && !errors.Is(err, copal.ErrUnfinished) && !errors.As(err, &clock) { // none is an error of the command
		a.reported = cmp.Or(a.reported, exitCode(err))
	}
}

// toldLocked reports whether the user knows the damaged place of an error already, and notes the
// place. A walk may return an error for the same place with each entry.
func (a *App) toldLocked(err error) bool {
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
