package main

import (
	"bufio"
	"fmt"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/serving"
)

const tokenHelp = `Make a token for a user of a server, and print the lines that the file of copal serve --users has
for the user. The token itself is written to standard error: give it to the user. The lines have
its SHA-256, from which it cannot be found again.

--read and --write name maps, and can be repeated; '*' is all maps, and all keys that belong to
none. The right to write includes that to read. The right to write '*' includes the commands of
administrators: CONFIG SET, FLUSHALL, MONITOR.

A running server reads the file again at SIGHUP. Connections of removed users, and of users with
other tokens or rights, are closed.`

func newToken(a *cli.App) *cobra.Command {
	var read, write []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "token USER",
		Short:             "Make a token for a user of a server",
		Long:              tokenHelp,
		Example:           "  copal token dashboard --read orders --read users >>users.toml\n  copal token shop --write orders --read '*' >>users.toml\n  copal serve app.db --users users.toml",
		Args:              cli.Arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		token := access.NewToken()
		user := serving.Rights{Tokens: []string{access.Hash(token)}, Read: read, Write: write}
		if _, err := access.New(access.User{Name: args[0], Tokens: user.Tokens, Read: read, Write: write}); err != nil {
			return cli.UsageError(serving.PlainAccess(err))
		}
		if asJSON {
			return cli.WriteJSON(out, struct {
				User  string `json:"user"`
				Token string `json:"token"`
				serving.Rights
			}{args[0], token, user})
		}
		if err := toml.NewEncoder(out).Encode(map[string]serving.Rights{args[0]: user}); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.Stderr, "The token of %s, which is kept nowhere:\n%s\n", args[0], token)
		return err
	})
	cmd.Flags().StringArrayVar(&read, "read", nil, "a map that the user may read")
	cmd.Flags().StringArrayVar(&write, "write", nil, "a map that the user may read and write")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print token and lines as a JSON object")
	return cmd
}
