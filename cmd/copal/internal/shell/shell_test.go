package shell

import (
	"bufio"
	"errors"
	"io"
	"testing"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// rootOfTwo has a command that reads the store, and one that writes to it.
func rootOfTwo(a *cli.App) *cobra.Command {
	root := &cobra.Command{Use: "copal", SilenceErrors: true, SilenceUsage: true}
	for name, lend := range map[string]func(string, func(*copal.DB) error) error{
		"read":  a.View,
		"write": func(dir string, f func(*copal.DB) error) error { return a.Update(dir, f) },
	} {
		root.AddCommand(&cobra.Command{Use: name + " DIR", Args: cli.Arguments(1, 1), RunE: a.Runs(func(args []string, _ *bufio.Writer) error {
			return lend(args[0], func(db *copal.DB) error {
				if name == "read" {
					return nil
				}
				return db.Raw().Set([]byte("k"), []byte("v"))
			})
		})})
	}
	a.Host.Adapt(root)
	return root
}

// A script keeps the lock from its first write on; a terminal gives it back after each command.
// Both read their own writes, and those of others.
func TestShellHoldsTheLock(t *testing.T) {
	for name, typed := range map[string]bool{"script": false, "typed": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db, err := copal.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Raw().Set([]byte("a"), []byte("1")), db.Close()); err != nil {
				t.Fatal(err)
			}
			a := cli.NewApp(nil, io.Discard, io.Discard)
			reads, err := a.OpenStore(dir, copal.ReadOnly())
			if err != nil {
				t.Fatal(err)
			}
			s := &shell{app: a, root: rootOfTwo, dir: dir, reads: reads}
			if typed {
				s.editor = &editor{}
			}
			locked := func() bool {
				db, err := copal.Open(dir)
				if err == nil {
					db.Close()
				}
				return errors.Is(err, copal.ErrLocked)
			}
			for _, step := range []struct {
				word   string
				locked bool
			}{{"read", false}, {"write", !typed}, {"read", !typed}, {"write", !typed}, {"read", !typed}} {
				if code := s.run(t.Context(), []string{step.word}); code != cli.ExitOK {
					t.Errorf("%s: exit code %d", step.word, code)
				}
				if got := locked(); got != step.locked {
					t.Errorf("after %s: locked %t", step.word, got)
				}
			}
			if err := s.close(); err != nil || locked() {
				t.Errorf("closed: %v", err)
			}
		})
	}
}

// The prompt names a server without its password.
func TestPromptHidesThePassword(t *testing.T) {
	s := &shell{dir: "redis://me:secret@host:1/2"}
	if got := s.prompt(); got != "redis://me:***@host:1/2> " {
		t.Errorf("%q", got)
	}
}
