package entries

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Get prints the value of a key.
func Get(a *cli.App, s cli.Source, key []byte, asJSON, raw bool, out *bufio.Writer) error {
	value, err := s.Raw().Load(key)
	var expires *cli.JSONTime
	if err == nil && asJSON {
		expires, err = cli.Expiry(s.Raw(), key)
	}
	if err != nil {
		return a.Missing(s, err, key)
	}
	if asJSON {
		return cli.WriteEntry(out, key, expires, value)
	}
	if cli.IsTerminal(a.Stdout) && !raw {
		value = []byte(cli.Plain(string(value)))
	}
	if cli.IsTerminal(a.Stdout) || a.Host != nil {
		value = append(value, '\n')
	}
	_, err = out.Write(value)
	return err
}

// Has reports by its error whether there are entries for all keys.
func Has(a *cli.App, db *copal.DB, keys [][]byte, asJSON bool, out *bufio.Writer) error {
	missing := error(nil)
	for _, key := range keys {
		_, err := db.Raw().Deadline(key)
		if err != nil && !errors.Is(err, copal.ErrNotFound) {
			return err
		}
		exists := err == nil
		if err = a.Missing(cli.Source{DB: db}, err, key); err != nil && !cli.IsGone(err) {
			return err
		}
		if !exists && missing == nil && a.Host == nil {
			missing = cli.Quiet(err)
		}
		if err := tellExists(a, key, exists, asJSON, out); err != nil {
			return err
		}
	}
	return missing
}

// tellExists prints the answer for one key where the exit code is not the answer.
func tellExists(a *cli.App, key []byte, exists, asJSON bool, out *bufio.Writer) error {
	switch {
	case asJSON:
		return cli.WriteJSON(out, struct {
			Key    any  `json:"key"`
			Exists bool `json:"exists"`
		}{cli.JSONKey(key), exists})
	case a.Host != nil: // in which exit codes are not seen
		_, err := fmt.Fprintf(out, "%s: %t\n", cli.ShowKey(key), exists)
		return err
	}
	return nil
}
