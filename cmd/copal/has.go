package main

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
)

const hasHelp = `Tell by the exit code whether there are entries for all the keys: 0 if there are,
3 if one is missing. Nothing is printed.

With --json a line tells of each key: {"key":…,"exists":true}.`

func newHas(a *app) *cobra.Command {
	var asJSON, quoted bool
	cmd := &cobra.Command{
		Use:               "has DIR KEY...",
		Short:             "Tell by the exit code whether there is an entry",
		Long:              hasHelp,
		Example:           "  copal has app.db users:alice && echo welcome back\n  copal has app.db users:alice users:bob --json",
		Args:              arguments(2, anyNumber),
		ValidArgsFunction: a.completeKey(anyNumber),
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			keys, err := parseKeys(args[1:], quoted)
			if err != nil {
				return err
			}
			return a.view(args[0], func(db *copal.DB) error { return a.has(db, keys, asJSON, out) })
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each key")
	cmd.Flags().BoolVarP(&quoted, "quoted", "Q", false, quotedUsage)
	return cmd
}

func (a *app) has(db *copal.DB, keys [][]byte, asJSON bool, out *bufio.Writer) error {
	missing := error(nil)
	for _, key := range keys {
		_, err := db.Raw().Deadline(key)
		if err != nil && !errors.Is(err, copal.ErrNotFound) {
			return err
		}
		exists := err == nil
		if err = a.missing(source{db: db}, err, key); err != nil && !isGone(err) {
			return err
		}
		if !exists && missing == nil && a.host == nil {
			missing = silent{err}
		}
		if err := a.tellExists(key, exists, asJSON, out); err != nil {
			return err
		}
	}
	return missing
}

// tellExists prints the answer for one key where the exit code is not the answer.
func (a *app) tellExists(key []byte, exists, asJSON bool, out *bufio.Writer) error {
	switch {
	case asJSON:
		return writeJSON(out, struct {
			Key    any  `json:"key"`
			Exists bool `json:"exists"`
		}{jsonKey(key), exists})
	case a.host != nil: // in which exit codes are not seen
		_, err := fmt.Fprintf(out, "%s: %t\n", showKey(key), exists)
		return err
	}
	return nil
}
