package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/built"
)

const rootHelp = `copal looks into copal stores, moves what is in them, and mends them.

The first argument of each command is the store's directory. Commands that read work
beside a process that has the store open; they see it as it is when they begin, and
watch follows. Commands that write need the store's lock, and name the process that has
it. A store that is not there is made by set, import and copy alone.

Every command takes --json. "-" stands for standard input or output where a value or a
file is asked for. A key of a map is the map's name, a colon, and the key: users:alice.

` + cli.ServersHelp + "\n\n" + cli.MomentHelp + "\n\n" + cli.ExitCodesHelp

func newRoot(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:                        "copal",
		Short:                      "Look into copal stores, and change them",
		Long:                       rootHelp,
		Example:                    "  copal ls app.db users:\n  copal get app.db users:alice\n  copal set app.db greeting hello\n  copal check app.db\n  copal shell app.db",
		Version:                    built.Read().String(),
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		// With Args and RunE of its own, the root reports an unknown command by the same path as
		// every other mistake on the command line.
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cobra.EnableCommandSorting = false
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpCommand(newHelp())
	root.SetFlagErrorFunc(explainFlag)
	addGroup(root, "Entries:", newGet(a), newSet(a), newDel(a), newHas(a), newIncr(a), newTTL(a))
	addGroup(root, "Many entries:", newLs(a), newScan(a), newRange(a), newCount(a), newLog(a), newDiff(a), newUndo(a), newWatch(a), newExport(a), newImport(a), newCopy(a))
	addGroup(root, "The store:", newServe(a), newToken(a), newHealth(a), newStat(a), newSchema(a), newCheck(a), newRepair(a), newHistory(a), newSync(a), newCompact(a), newBackup(a), newRestore(a))
	addGroup(root, "Else:", append(measurements(a), newShell(a), newVersion(a))...)
	root.SetHelpCommandGroupID("Else:")
	root.SetCompletionCommandGroupID("Else:")
	if a.Host != nil {
		a.Host.Adapt(root)
		return root
	}
	root.PersistentFlags().BoolVar(&a.Copied, "copied", false, "open a copy of a store that was not closed, though writes may be missing")
	root.PersistentFlags().Var(&a.FileMode, "file-mode", "the permissions of the files that are made, whatever the umask")
	refuseUnknownShells(root)
	return root
}

// addGroup adds commands that are together in the list of all.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// refuseUnknownShells makes cobra's completion command, which prints its help for a shell
// that it does not know, return an error instead.
func refuseUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err == nil {
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

// knownCommand refuses arguments in which no command was found.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cli.IsServer(args[0]) {
		return cli.UsageError("a server comes behind a command: copal stat " + cli.Redacted(args[0]))
	}
	reason := "unknown command " + strconv.Quote(args[0])
	if cli.RequireStore(args[0]) == nil {
		return cli.UsageError(reason + "; it is a store, which comes behind a command: copal stat " + args[0])
	}
	if similar := suggestions(root, args[0]); len(similar) > 0 {
		reason += "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return cli.UsageError(reason)
}

// explainFlag adds to the error of a flag's value the values that it takes, and to the error of an
// unknown flag, which may be a key or a value, the way to give one that begins with a dash.
func explainFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag := invalid.GetFlag()
		if own := cli.UsageError(""); errors.As(err, &own) {
			return cli.UsageError("--" + flag.Name + ": " + string(own))
		}
		takes := map[string]string{"bool": "true or false", "int": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0 on",
			"duration": "a time such as 10s or 5m"}[flag.Value.Type()]
		return cli.UsageError(fmt.Sprintf("--%s takes %s, and %q is none", flag.Name, takes, invalid.GetValue()))
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "" && strings.Contains(cmd.Use, " KEY") {
		return fmt.Errorf("%w; put -- before a key or a value that begins with a dash", err)
	}
	return err
}

// suggestions returns the commands that are spelt about like word, those with its first letter if
// there are any.
func suggestions(root *cobra.Command, word string) []string {
	all := root.SuggestionsFor(word)
	near := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return word == "" || name[0] != word[0] })
	if len(near) > 0 {
		return near
	}
	return all
}

// newHelp returns cobra's help command, except that asking for a command that does not exist is an
// error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(help *cobra.Command, args []string) error {
			cmd, rest, err := help.Root().Find(args)
			if err == nil {
				err = knownCommand(help.Root(), rest)
			}
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
		ValidArgsFunction: func(help *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				for _, c := range help.Root().Commands() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
