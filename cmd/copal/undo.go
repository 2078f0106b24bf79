package main

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

const undoHelp = `Take back what has happened to entries since a moment: what was changed gets the value, the
elements and the deadline that it had, what was deleted comes back, and what is new goes.
PREFIX is what the keys begin with; a map is its name and a colon: users:
MOMENT is written like "10 minutes ago", 10:00 or 4711, the number of a record: copal --help.

First it prints what it would do, as copal diff prints a change, and asks. All of it is
one transaction, of new records: it counts as a whole or not at all, and ` + "`copal log`" + `,
--from and --since see both what was before and what was after it. So an undo can be undone.

An entry that has changed more than once since MOMENT is marked with !: somebody may have
written it after the mistake. With --until MOMENT, the moment behind the mistake, only what
happened before it is taken back, and entries that have changed since are left as they are
and told of. So are those that change while you read.

A deadline comes back as it was. If it has passed, the entry is gone, as if nothing had been
written since. A map that was dropped comes back with its types.

undo needs the store's lock, and memory for what it writes. With --dry-run it needs no lock
and prints all that it would do; otherwise the first entries and the numbers. A program that
has the store open can do it itself: copal/admin.Undo.

With --json the lines are those of copal diff, with "changes", how often an entry has changed,
and the last one is {"restored":…,"deleted":…,"expired":…,"left":[…]}, with the keys that
were left as they are; of a dry run {"removed":…,"added":…,"changed":…}.`

const undoExample = `  copal undo app.db users: --since "10 minutes ago" --dry-run
  copal undo app.db users: --since "10 minutes ago"
  copal undo app.db --since 10:00 --until 10:05 --yes`

// undoFlags say what is taken back, and how that is printed.
type undoFlags struct {
	consent
	since, until *momentFlag
	quoted       bool
	json         bool
}

func newUndo(a *app) *cobra.Command {
	var f undoFlags
	cmd := &cobra.Command{
		Use:               "undo DIR [PREFIX]",
		Short:             "Take back what has happened since a moment",
		Long:              undoHelp,
		Example:           undoExample,
		Args:              arguments(1, 2),
		ValidArgsFunction: a.completeKey(1),
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		if f.since.moment == nil {
			return usageError{`since when? Say --since MOMENT, such as --since "10 minutes ago"`}
		}
		prefix, err := parseKeys(args[1:], f.quoted)
		if err != nil {
			return err
		}
		u := &undo{app: a, flags: &f, dir: args[0], prefix: prefix}
		if !f.dryRun {
			return a.update(args[0], func(db *copal.DB) error { return u.run(db, out) })
		}
		if a.host == nil {
			defer a.catchSignals()()
		}
		return a.view(args[0], func(db *copal.DB) error { return u.run(db, out) })
	})
	f.consent.flags(cmd)
	f.since = a.addMoment(cmd, "since", "take back what has happened since this `MOMENT`, such as 10m or \"2 days ago\"")
	f.until = a.addMoment(cmd, "until", "take back only what had happened by this `MOMENT`, in the place of now")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a line of JSON for each entry")
	cmd.Flags().BoolVarP(&f.quoted, "quoted", "Q", false, `read PREFIX as ls shows a key: a Go string literal if it begins with "`)
	return cmd
}

// undo is one run of the command.
type undo struct {
	*app
	flags  *undoFlags
	dir    string
	prefix [][]byte

	often []string // entries that have changed more than once, as a person reads it; the first ones
	many  int64    // how many these are
	stays int64    // entries that have changed after until
}

func (u *undo) run(db *copal.DB, out *bufio.Writer) error {
	then, err := u.flags.since.open(db)
	if err != nil {
		return err
	}
	defer then.Close()
	now, err := u.flags.until.open(db)
	if err != nil {
		return err
	}
	defer now.Close()
	if now.Seq() < then.Seq() {
		return usageError{"--until is a moment before --since"}
	}
	p := newDifferences(u.app, source{db: db, at: now}, source{db: db, at: then}, u.flags.json, out)
	if err := u.show(db, p); err != nil || u.flags.dryRun || p.all() == 0 {
		return err
	}
	if err := out.Flush(); err != nil { // before the question
		return err
	}
	if err := u.confirm(u.flags.consent, "Undo this in "+u.dir+"?"); err != nil {
		return err
	}
	from, to := prefixBounds(u.prefix)
	report, err := admin.Undo(u.ctx, db, then, now, from, to)
	if err != nil {
		return err
	}
	return u.tell(&report, out)
}

// mostListed is how many entries are printed before the question, and how many of those that were left.
const mostListed = 20

// show prints what would be done.
func (u *undo) show(db *copal.DB, p *differences) error {
	changes, later, err := u.counts(db, p)
	if err != nil {
		return err
	}
	err = p.each(u.prefix, func(d *admin.Difference) error {
		n := changes(d.Key)
		note, stays := u.noteOf(d, n, later(d.Key) > 0)
		if !stays {
			p.count(d)
		}
		if p.all()+u.stays > mostListed && !u.flags.dryRun && !u.flags.json {
			return nil
		}
		return p.writeNoted(d, note, n)
	})
	if err != nil {
		return err
	}
	return u.sum(p)
}

// counts tell how often an entry has changed up to --until, and later.
func (u *undo) counts(db *copal.DB, p *differences) (changes, later func(key []byte) int, err error) {
	present, err := db.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	defer present.Close()
	from, to := prefixBounds(u.prefix)
	if changes, err = admin.Changes(u.ctx, db, p.after.at, p.before.at, from, to); err == nil {
		later, err = admin.Changes(u.ctx, db, p.before.at, present, from, to)
	}
	return changes, later, err
}

// noteOf is what a person is to know of an entry that has changed so many times, and of one that has changed later
// than what is to be undone: a value stays then, and of a collection the elements that have changed.
func (u *undo) noteOf(d *admin.Difference, changes int, later bool) (note string, stays bool) {
	isCollection := d.A != nil && d.A.Collection != "" || d.B != nil && d.B.Collection != ""
	switch {
	case later && isCollection:
		note = "\t= has changed after that: elements that have stay"
	case later:
		stays = true
		u.stays++
		note = "\t= has changed after that, and stays"
	case changes > 1:
		note = u.noteOften(d, changes)
	}
	if d.B != nil && !d.B.Expires.IsZero() && !d.B.Expires.After(time.Now()) {
		note += "\t(its deadline has passed: it will be gone)"
	}
	return note, stays
}

// noteOften notes an entry that has changed several times.
func (u *undo) noteOften(d *admin.Difference, n int) string {
	last := ""
	if d.A != nil && d.A.Collection == "" {
		last = ", the last time at " + showTime(d.A.Time)
	}
	note := fmt.Sprintf("changed %d times since%s", n, last)
	if u.many++; u.many <= mostListed {
		u.often = append(u.often, "! "+showKey(d.Key)+"\t"+note)
	}
	return "\t! " + note
}

// sum prints the numbers of what would be done, and what to look at before.
func (u *undo) sum(p *differences) error {
	if p.json && !u.flags.dryRun {
		return nil // the numbers of what was done come last
	}
	if p.json || p.all()+u.stays == 0 {
		return p.writeCounts("there is nothing to undo: nothing has changed since " + showTime(p.after.at.Time()))
	}
	if all := p.all() + u.stays; !u.flags.dryRun && all > mostListed {
		fmt.Fprintf(p.out, "… and %d more, which --dry-run shows\n", all-mostListed)
		if u.many > 0 {
			fmt.Fprintln(p.out, strings.Join(u.often, "\n"))
		}
	}
	if u.many > 0 {
		fmt.Fprintf(p.out, "! %s more than once since then. What was written after the mistake would be undone, too:\n  --until MOMENT leaves alone what came after that\n", haveChanged(u.many))
	}
	if u.stays > 0 {
		fmt.Fprintf(p.out, "= %s after %s, and will stay\n", haveChanged(u.stays), showTime(p.before.at.Time()))
	}
	_, err := fmt.Fprintf(p.out, "%s to come back, %d to go, %d to change back: as it was at %s\n", countEntries(p.added), p.removed, p.changed, showTime(p.after.at.Time()))
	if err == nil && u.flags.dryRun {
		_, err = fmt.Fprintf(p.out, "--since %d --until %d takes back this and no more, whenever it runs\n", p.after.at.Seq(), p.before.at.Seq())
	}
	return err
}

func haveChanged(n int64) string {
	if n == 1 {
		return "1 entry has changed"
	}
	return fmt.Sprintf("%d entries have changed", n)
}

// tell prints what was done.
func (u *undo) tell(r *admin.UndoReport, out *bufio.Writer) error {
	if u.flags.json {
		left := make([]any, len(r.Changed))
		for i, key := range r.Changed {
			left[i] = jsonKey(key)
		}
		return writeJSON(out, struct {
			Restored int64 `json:"restored"`
			Deleted  int64 `json:"deleted"`
			Expired  int64 `json:"expired"`
			Left     []any `json:"left"`
		}{r.Restored, r.Deleted, r.Expired, left})
	}
	text := fmt.Sprintf("%s as before, %d deleted", countEntries(r.Restored), r.Deleted)
	if r.Expired > 0 {
		text += fmt.Sprintf("; of %d the deadline has passed", r.Expired)
	}
	if n := len(r.Changed); n > 0 {
		text += fmt.Sprintf("\n%d left as they are, for they have changed since: %s", n, listKeys(r.Changed))
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// listKeys shows some keys, the first ones of many.
func listKeys(keys [][]byte) string {
	var shown []string
	for _, key := range keys[:min(len(keys), mostListed)] {
		shown = append(shown, showKey(key))
	}
	if more := len(keys) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, ", ")
}
