package comparing

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Undo has the flags of undo.
type Undo struct {
	cli.Consent
	Since, Until *cli.MomentFlag
	Quoted       bool
	JSON         bool
}

// Run undoes changes, or shows the effect. The arguments are those of the command.
func (f *Undo) Run(a *cli.App, args []string, out *bufio.Writer) error {
	if f.Since.Moment == nil {
		return cli.UsageError(`since when? Say --since MOMENT, such as --since "10 minutes ago"`)
	}
	prefix, err := cli.ParseKeys(args[1:], f.Quoted)
	if err != nil {
		return err
	}
	u := &undoing{App: a, flags: f, dir: args[0], prefix: prefix}
	if !f.DryRun {
		return a.Update(args[0], func(db *copal.DB) error { return u.run(db, out) })
	}
	if a.Host == nil {
		defer a.CatchSignals()()
	}
	return a.View(args[0], func(db *copal.DB) error { return u.run(db, out) })
}

// undoing is one run of the command.
type undoing struct {
	*cli.App
	flags  *Undo
	dir    string
	prefix [][]byte

	often []string // entries that have changed more than once, as a person reads it; the first ones
	many  int64    // how many these are
	stays int64    // entries that have changed after until
}

func (u *undoing) run(db *copal.DB, out *bufio.Writer) error {
	then, err := u.flags.Since.Open(db)
	if err != nil {
		return err
	}
	defer then.Close()
	now, err := u.flags.Until.Open(db)
	if err != nil {
		return err
	}
	defer now.Close()
	if now.Seq() < then.Seq() {
		return cli.UsageError("--until is a moment before --since")
	}
	p := newDifferences(u.App, cli.Source{DB: db, At: now}, cli.Source{DB: db, At: then}, u.flags.JSON, out)
	if err := u.show(db, p); err != nil || u.flags.DryRun || p.all() == 0 {
		return err
	}
	if err := out.Flush(); err != nil { // before the question
		return err
	}
	if err := u.Confirm(u.flags.Consent, "Undo this in "+u.dir+"?"); err != nil {
		return err
	}
	from, to := prefixBounds(u.prefix)
	report, err := admin.Undo(u.Ctx, db, then, now, from, to)
	if err != nil {
		return err
	}
	return u.tell(&report, out)
}

// mostListed is the number of entries to print before the question, and of those that were left.
const mostListed = 20

// show prints the changes that the undo would make.
func (u *undoing) show(db *copal.DB, p *differences) error {
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
		if p.all()+u.stays > mostListed && !u.flags.DryRun && !u.flags.JSON {
			return nil
		}
		return p.writeNoted(d, note, n)
	})
	if err != nil {
		return err
	}
	return u.sum(p)
}

// counts returns functions for the number of changes of an entry: up to --until, and later.
func (u *undoing) counts(db *copal.DB, p *differences) (changes, later func(key []byte) int, err error) {
	present, err := db.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	defer present.Close()
	from, to := prefixBounds(u.prefix)
	if changes, err = admin.Changes(u.Ctx, db, p.after.At, p.before.At, from, to); err == nil {
		later, err = admin.Changes(u.Ctx, db, p.before.At, present, from, to)
	}
	return changes, later, err
}

// noteOf returns a note for an entry that has changed several times, or after the changes to undo.
// stays means that the entry keeps its value; of a collection only the elements with later changes
// stay.
func (u *undoing) noteOf(d *admin.Difference, changes int, later bool) (note string, stays bool) {
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
func (u *undoing) noteOften(d *admin.Difference, n int) string {
	last := ""
	if d.A != nil && d.A.Collection == "" {
		last = ", the last time at " + cli.ShowTime(d.A.Time)
	}
	note := fmt.Sprintf("changed %d times since%s", n, last)
	if u.many++; u.many <= mostListed {
		u.often = append(u.often, "! "+cli.ShowKey(d.Key)+"\t"+note)
	}
	return "\t! " + note
}

// sum prints the counts of the undo, and the entries to look at before it.
func (u *undoing) sum(p *differences) error {
	if p.json && !u.flags.DryRun {
		return nil // the final counts come last
	}
	if p.json || p.all()+u.stays == 0 {
		return p.writeCounts("there is nothing to undo: nothing has changed since " + cli.ShowTime(p.after.At.Time()))
	}
	if all := p.all() + u.stays; !u.flags.DryRun && all > mostListed {
		fmt.Fprintf(p.out, "… and %d more, which --dry-run shows\n", all-mostListed)
		if u.many > 0 {
			fmt.Fprintln(p.out, strings.Join(u.often, "\n"))
		}
	}
	if u.many > 0 {
		fmt.Fprintf(p.out, "! %s more than once since then. What was written after the mistake would be undone, too:\n  --until MOMENT leaves alone what came after that\n", haveChanged(u.many))
	}
	if u.stays > 0 {
		fmt.Fprintf(p.out, "= %s after %s, and will stay\n", haveChanged(u.stays), cli.ShowTime(p.before.At.Time()))
	}
	_, err := fmt.Fprintf(p.out, "%s to come back, %d to go, %d to change back: as it was at %s\n", cli.CountEntries(p.added), p.removed, p.changed, cli.ShowTime(p.after.At.Time()))
	if err == nil && u.flags.DryRun {
		_, err = fmt.Fprintf(p.out, "--since %d --until %d takes back this and no more, whenever it runs\n", p.after.At.Seq(), p.before.At.Seq())
	}
	return err
}

func haveChanged(n int64) string {
	if n == 1 {
		return "1 entry has changed"
	}
	return fmt.Sprintf("%d entries have changed", n)
}

// tell prints the result.
func (u *undoing) tell(r *admin.UndoReport, out *bufio.Writer) error {
	if u.flags.JSON {
		left := make([]any, len(r.Changed))
		for i, key := range r.Changed {
			left[i] = cli.JSONKey(key)
		}
		return cli.WriteJSON(out, struct {
			Restored int64 `json:"restored"`
			Deleted  int64 `json:"deleted"`
			Expired  int64 `json:"expired"`
			Left     []any `json:"left"`
		}{r.Restored, r.Deleted, r.Expired, left})
	}
	text := fmt.Sprintf("%s as before, %d deleted", cli.CountEntries(r.Restored), r.Deleted)
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
		shown = append(shown, cli.ShowKey(key))
	}
	if more := len(keys) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, ", ")
}
