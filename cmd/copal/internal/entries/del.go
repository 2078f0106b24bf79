package entries

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Del has the flags of del.
type Del struct {
	cli.Consent
	cli.SelectionFlags
	Prefix string
	Many   bool // with prefix or pattern
	JSON   bool
	FSync  bool
}

// Named deletes the entries of keys.
func (f *Del) Named(a *cli.App, db *copal.DB, keys [][]byte, out *bufio.Writer) error {
	del := db.Raw().Delete
	if f.FSync {
		del = db.Raw().DeleteFSync
	}
	var missing []error
	for _, key := range keys {
		existed, err := del(key)
		if err != nil {
			return err
		}
		if !existed {
			missing = append(missing, a.Missing(cli.Source{DB: db}, copal.ErrNotFound, key))
		}
		if !f.JSON {
			continue
		}
		if err := cli.WriteJSON(out, struct {
			Key     any  `json:"key"`
			Deleted bool `json:"deleted"`
		}{cli.JSONKey(key), existed}); err != nil {
			return err
		}
	}
	return errors.Join(missing...)
}

// DelMany deletes the selected entries, after a question.
func DelMany(a *cli.App, cmd *cobra.Command, dir string, f *Del, out *bufio.Writer) error {
	var args []string
	if cmd.Flags().Changed("prefix") {
		args = append(args, f.Prefix)
	}
	s, err := f.Parse(cmd, args)
	if err != nil {
		return err
	}
	if f.DryRun {
		return a.View(dir, func(db *copal.DB) error { return listDoomed(a, db, s, f.JSON, out) })
	}
	return a.Update(dir, func(db *copal.DB) error { return delSelected(a, db, s, f, dir, out) })
}

// listDoomed prints the keys that would be deleted.
func listDoomed(a *cli.App, db *copal.DB, s cli.Selection, asJSON bool, out *bufio.Writer) error {
	list := List{JSON: asJSON}
	for key := range a.Keys(cli.Source{DB: db}, s) {
		if err := list.write(out, key, 0, nil); err != nil {
			return err
		}
	}
	return a.Ctx.Err()
}

func delSelected(a *cli.App, db *copal.DB, s cli.Selection, f *Del, dir string, out *bufio.Writer) error {
	n, err := countKeys(a, cli.Source{DB: db}, s, "counting")
	if err != nil {
		return err
	}
	if n > 0 {
		if err := a.Confirm(f.Consent, fmt.Sprintf("Delete %s of %s from %s?", cli.Count(n, "key"), cli.Count(int64(db.Raw().Len()), "key"), dir)); err != nil {
			return err
		}
	}
	deleted, err := delEach(a, db, s, n)
	if err == nil && f.FSync {
		err = db.Sync()
	}
	if failed := tellDeleted(deleted, f.JSON, out); err == nil {
		err = failed
	}
	return err
}

func tellDeleted(n int64, asJSON bool, out *bufio.Writer) (err error) {
	if asJSON {
		return cli.WriteJSON(out, struct {
			Deleted int64 `json:"deleted"`
		}{n})
	}
	_, err = fmt.Fprintf(out, "%s deleted\n", cli.Count(n, "key"))
	return err
}

func delEach(a *cli.App, db *copal.DB, s cli.Selection, total int64) (n int64, err error) {
	bar := a.NewCount("deleting", "keys")
	defer bar.Clear()
	for key := range a.Keys(cli.Source{DB: db}, s) {
		existed, err := db.Raw().Delete(key)
		if err != nil {
			return n, err
		}
		if existed {
			n++
		}
		bar.Show(n, total)
	}
	return n, a.Ctx.Err()
}
