package main

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
)

const delHelp = `Delete entries: those of the keys that are named, or with --prefix and --match all whose
keys begin so, or look so.

Named keys are deleted without a question. If there is no entry for one of them, the
others are deleted all the same, and the exit code is 3.

With --prefix or --match the entries are counted, and nothing is deleted before you say
yes. --dry-run lists their keys and deletes nothing; --yes asks nothing. ` + matchHelp + `

With --json a line tells of each named key: {"key":…,"deleted":true}; and with --prefix or
--match one line says how many there were: {"deleted":…}.`

const delExample = `  copal del app.db users:alice
  copal del app.db --prefix session: --dry-run
  copal del app.db --match 'users:*:tmp' --yes`

// delFlags say what is deleted.
type delFlags struct {
	consent
	selectionFlags
	prefix string
	many   bool // with prefix or pattern
	json   bool
	fsync  bool
}

func newDel(a *app) *cobra.Command {
	var f delFlags
	cmd := &cobra.Command{
		Use:               "del DIR [KEY...]",
		Short:             "Delete entries",
		Long:              delHelp,
		Example:           delExample,
		Args:              arguments(1, anyNumber),
		ValidArgsFunction: a.completeKey(anyNumber),
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		f.many = cmd.Flags().Changed("prefix") || cmd.Flags().Changed("match")
		if f.many == (len(args) > 1) {
			return usageError{"what is to be deleted? Either name keys, or say --prefix or --match"}
		}
		if f.many {
			return a.delMany(cmd, args[0], &f, out)
		}
		if f.dryRun || f.yes {
			return usageError{"--dry-run and --yes go with --prefix and --match; named keys are deleted without a question"}
		}
		keys, err := parseKeys(args[1:], f.quoted)
		if err != nil {
			return err
		}
		return a.update(args[0], func(db *copal.DB) error { return f.named(a, db, keys, out) })
	})
	f.consent.flags(cmd)
	f.addQuoted(cmd, "keys and --prefix")
	f.addMatch(cmd)
	cmd.Flags().StringVarP(&f.prefix, "prefix", "p", "", "delete all entries whose keys begin with this `PREFIX`")
	cmd.Flags().BoolVar(&f.fsync, "fsync", false, "sync the deletion by itself; without, the store is synced when it is closed")
	cmd.Flags().BoolVar(&f.json, "json", false, "print what was deleted as JSON")
	return cmd
}

func (f *delFlags) named(a *app, db *copal.DB, keys [][]byte, out *bufio.Writer) error {
	del := db.Raw().Delete
	if f.fsync {
		del = db.Raw().DeleteFSync
	}
	var missing []error
	for _, key := range keys {
		existed, err := del(key)
		if err != nil {
			return err
		}
		if !existed {
			missing = append(missing, a.missing(source{db: db}, copal.ErrNotFound, key))
		}
		if !f.json {
			continue
		}
		if err := writeJSON(out, struct {
			Key     any  `json:"key"`
			Deleted bool `json:"deleted"`
		}{jsonKey(key), existed}); err != nil {
			return err
		}
	}
	return errors.Join(missing...)
}

func (a *app) delMany(cmd *cobra.Command, dir string, f *delFlags, out *bufio.Writer) error {
	var args []string
	if cmd.Flags().Changed("prefix") {
		args = append(args, f.prefix)
	}
	s, err := f.parse(cmd, args)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.view(dir, func(db *copal.DB) error { return a.listDoomed(db, s, f.json, out) })
	}
	return a.update(dir, func(db *copal.DB) error { return a.delSelected(db, s, f, dir, out) })
}

// listDoomed prints the keys that would be deleted.
func (a *app) listDoomed(db *copal.DB, s selection, asJSON bool, out *bufio.Writer) error {
	list := lsFlags{json: asJSON}
	for key := range a.keys(source{db: db}, s) {
		if err := list.write(out, key, 0, nil); err != nil {
			return err
		}
	}
	return a.ctx.Err()
}

func (a *app) delSelected(db *copal.DB, s selection, f *delFlags, dir string, out *bufio.Writer) error {
	n, err := a.countKeys(source{db: db}, s, "counting")
	if err != nil {
		return err
	}
	if n > 0 {
		if err := a.confirm(f.consent, fmt.Sprintf("Delete %s of %s from %s?", count(n, "key"), count(int64(db.Raw().Len()), "key"), dir)); err != nil {
			return err
		}
	}
	deleted, err := a.delEach(db, s, n)
	if err == nil && f.fsync {
		err = db.Sync()
	}
	if failed := tellDeleted(deleted, f.json, out); err == nil {
		err = failed
	}
	return err
}

func tellDeleted(n int64, asJSON bool, out *bufio.Writer) (err error) {
	if asJSON {
		return writeJSON(out, struct {
			Deleted int64 `json:"deleted"`
		}{n})
	}
	_, err = fmt.Fprintf(out, "%s deleted\n", count(n, "key"))
	return err
}

func (a *app) delEach(db *copal.DB, s selection, total int64) (n int64, err error) {
	bar := a.newCount("deleting", "keys")
	defer bar.clear()
	for key := range a.keys(source{db: db}, s) {
		existed, err := db.Raw().Delete(key)
		if err != nil {
			return n, err
		}
		if existed {
			n++
		}
		bar.show(n, total)
	}
	return n, a.ctx.Err()
}
