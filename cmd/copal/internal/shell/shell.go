package shell

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Run works in a store by the commands of root.
func Run(a *cli.App, dir string, root func(*cli.App) *cobra.Command) error {
	interactive := cli.IsTerminal(a.Stdin) && cli.IsTerminal(a.Stdout)
	if interactive {
		defer a.Catch(syscall.SIGTERM)() // Ctrl-C ends commands
	} else {
		defer a.CatchSignals()()
	}
	open := func(dir string) (*copal.DB, error) { return a.OpenStore(dir, copal.ReadOnly()) }
	if cli.IsServer(dir) {
		open = a.OpenServer
	}
	reads, err := open(dir)
	if err != nil {
		return err
	}
	s := &shell{app: a, root: root, dir: dir, reads: reads}
	if interactive {
		err = s.converse()
	} else {
		err = s.script(bufio.NewReader(a.Input()))
	}
	return errors.Join(err, s.close())
}

// shell is the host of its commands. It has the store open for reading all the time, and follows
// its writer. One on a server is read and written through the same.
type shell struct {
	app    *cli.App
	root   func(*cli.App) *cobra.Command
	dir    string // or the server
	reads  *copal.DB
	writes *copal.DB // the store of a script that has written, or nil
	editor *editor   // nil for a script
}

// script runs the lines of a script up to the first that fails.
func (s *shell) script(in *bufio.Reader) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil && err != io.EOF {
			return err
		}
		end := err == io.EOF
		words, err := cli.SplitWords(line)
		if err != nil {
			return cli.UsageError(err.Error())
		}
		if leaves(words) {
			return nil
		}
		if code := s.run(s.app.Ctx, words); code != cli.ExitOK {
			return cli.FailedLine(code)
		}
		if end {
			return nil
		}
	}
}

func leaves(words []string) bool {
	return len(words) == 1 && (words[0] == "exit" || words[0] == "quit")
}

// run carries out a command and returns its exit code.
func (s *shell) run(ctx context.Context, words []string) int {
	if len(words) == 0 {
		return cli.ExitOK
	}
	sub := cli.NewApp(nil, s.app.Stdout, s.app.Stderr)
	sub.Ctx, sub.Host, sub.Now, sub.Served = ctx, s, s.app.Now, cli.IsFar(s.reads)
	return sub.CarryOut(s.root(sub), words)
}

// View lends the store to read, with the newest writes of others.
func (s *shell) View(f func(db *copal.DB) error) error {
	switch {
	case cli.IsFar(s.reads):
		return f(s.reads)
	case s.writes != nil:
		return f(s.writes)
	}
	if err := s.reads.Refresh(); err != nil {
		return err
	}
	return f(s.reads)
}

// Update lends the store to write. With options, a store that a script has open is reopened.
func (s *shell) Update(f func(db *copal.DB) error, opts ...copal.Option) error {
	if cli.IsFar(s.reads) {
		return f(s.reads)
	}
	if s.writes != nil && opts != nil {
		if err := s.writes.Close(); err != nil {
			return err
		}
		s.writes = nil
	}
	if s.writes != nil {
		return f(s.writes)
	}
	db, err := s.app.OpenStore(s.dir, opts...)
	if err != nil {
		return err
	}
	if s.editor == nil {
		s.writes = db
		return f(db)
	}
	return errors.Join(f(db), db.Close())
}

// Confirm asks the person at the terminal. In a script it returns a UsageError.
func (s *shell) Confirm(question string) error {
	if s.editor == nil {
		return cli.UsageError(question + " There is nobody to ask: say --yes, or --dry-run to see what would be done")
	}
	answer, err := s.editor.ask(question + " [y/N] ")
	if err != nil {
		return cli.ErrDeclined
	}
	return cli.Affirmed(answer)
}

func (s *shell) close() error {
	err := s.reads.Close()
	if s.writes != nil {
		err = errors.Join(err, s.writes.Close())
	}
	return err
}

// outside are the commands that make no sense where the store is open.
var outside = []string{"shell", "repair", "restore"}

// Adapt makes the root of all commands the root of a shell: the store in dir becomes their first
// argument.
func (s *shell) Adapt(root *cobra.Command) {
	root.Long = Help
	root.Example = ""
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetUsageTemplate(strings.NewReplacer(
		"{{if .Runnable}}", "{{if .HasParent}}",
		"{{.UseLine}}", "{{slice .UseLine "+strconv.Itoa(len(root.Name()+" "))+"}}",
		`"{{.CommandPath}} [command] --help"`, `"help COMMAND"`,
		"{{.CommandPath}} [command]", "COMMAND [ARGUMENT...]",
	).Replace(root.UsageTemplate()))
	for _, cmd := range root.Commands() {
		switch synopsis, ok := withoutDir(cmd.Use); {
		case cmd.Name() == "help" || cmd.Name() == "version":
		case ok && !slices.Contains(outside, cmd.Name()):
			impliedDir(cmd, s.dir)
			cmd.Use = synopsis
			cmd.Example = ""
		default:
			root.RemoveCommand(cmd)
		}
	}
}

// withoutDir takes the store's directory out of a synopsis.
func withoutDir(use string) (_ string, ok bool) {
	name, rest, ok := strings.Cut(use, " DIR")
	return name + rest, ok
}

// impliedDir puts the store's directory before the arguments of a command.
func impliedDir(cmd *cobra.Command, dir string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[cli.ImpliedAnnotation] = "yes"
	full := func(args []string) []string { return append([]string{dir}, args...) }
	check, run, complete := cmd.Args, cmd.RunE, cmd.ValidArgsFunction
	cmd.Args = func(cmd *cobra.Command, args []string) error { return check(cmd, full(args)) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, full(args)) }
	if complete != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return complete(cmd, full(args), word)
		}
	}
}

// Help is the help of shell.
const Help = `Look into a store and change it, command by command.

The commands are those of copal without the store: get users:alice. Words are divided by
spaces. One that begins with " is a Go string literal: "\x00\xff"; one that begins with
' goes to the next ' and is taken as it is: '{"Name": "Alice"}'. A line that begins with #
is passed over. help lists the commands, exit and Ctrl-D end the shell, Ctrl-C ends what
is running.

On a terminal there is a history, in which a line that begins with a space is not kept,
and the tab key completes commands, flags and keys. An error does not end the shell. A
command that writes holds the store's lock while it runs, so that other programs can
write in between; reading follows them.

When standard input is no terminal it is a script: the first error ends it, with the exit
code of that command. From the first command that writes to the end it holds the lock.

On a server each command counts at once, and there is no lock; keys are not completed. In
the directory of a store that a copal serve has open, a shell reads and cannot write;
use copal shell unix:///…/app.db/SOCKET.

` + cli.MomentHelp
