package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const schemaHelp = `Print the types of values that the log knows: of MAP, or of all maps. A map that was written by
several versions of a program has several, the newest first.

Other languages take them as JSON Schema (2020-12), as declarations of TypeScript or of Go, or in
the description of the HTTP server (OpenAPI 3.1). They describe the JSON that get prints.

On a copal serve it reads all values of MAP, or of all maps, and prints their types in the order
of their keys, not of their age. A Redis keeps no types.`

func newSchema(a *cli.App) *cobra.Command {
	var s upkeep.Schema
	cmd := &cobra.Command{
		Use:               "schema DIR [MAP]",
		Short:             "Print the types of values, for other languages",
		Long:              schemaHelp,
		Example:           "  copal schema app.db\n  copal schema app.db users --ts > users.ts\n  copal schema app.db --json-schema",
		Args:              cli.Arguments(1, 2),
		ValidArgsFunction: cli.CompleteDir,
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		return a.View(args[0], func(db *copal.DB) error { return s.Write(a, db, args[1:], out) })
	})
	f := cmd.Flags()
	f.BoolVar(&s.JSONSchema, "json-schema", false, "print JSON Schema")
	f.BoolVar(&s.Script, "ts", false, "print declarations of TypeScript")
	f.BoolVar(&s.GoTypes, "go", false, "print declarations of Go, of the newest type of each map")
	f.BoolVar(&s.OpenAPI, "openapi", false, "print the description of the HTTP server, with the types of all maps")
	f.BoolVar(&s.JSON, "json", false, "print maps and types as a list of JSON")
	cmd.MarkFlagsMutuallyExclusive("json-schema", "ts", "go", "openapi", "json")
	return cmd
}
