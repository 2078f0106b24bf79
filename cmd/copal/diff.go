package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/copying"
)

const diffHelp = `Compare two moments of a store, or two stores, and print the entries in which they differ,
in the order of their keys, field by field where values are JSON, and element by element
where keys hold collections:
- users:bob	{"Name":"Bob"}     there first, and gone in the second
+ users:carol	{"Name":"Carol"}   not there first, and new in the second
~ users:alice                    changed:
    Age: 28 → 29                   another value
  + Tags[2]: "new"                 in the second alone
  - Nick: "al"                     in the first alone
The last line says how many entries are gone, new and changed.

With --from MOMENT the store in DIR is compared with itself, from that moment up to --to
MOMENT or now (copal --help has the forms of a moment); PREFIX is what the keys begin
with. Without --from the arguments are two stores, such as a store and its backup, and
PREFIX. ` + "`copal log`" + ` tells how an entry came from one state to the other, and copal undo
takes changes back.

Either of two stores may be on a server: redis://host:port. Where one is on a Redis, what
that does not keep is not compared: codecs, types and content types, and of streams when a
consumer last got an entry. Of a Redis the present is compared: what is written to it
meanwhile may be told as a difference or not. An entry that cannot be read, such as a
value of a module of Redis, is told, the rest is compared, and the exit code is 1. Of a
server, "before" and "after" have no "seq" and "time".

With --json a line tells of each entry: {"key":…,"change":"changed","before":{"value":…},
"after":{"value":…},"changed":[{"field":"Age","before":28,"after":29}]}; change is removed,
added or changed, and "before" and "after" have the forms of copal export. Behind a changed
collection comes a line for each element: {"key":…,"element":…,…}, of a list "index". The
last line is {"removed":…,"added":…,"changed":…}. The exit code does not depend on what differs.`

const diffExample = `  copal diff app.db --from "10 minutes ago"
  copal diff app.db users: --from 10:00 --to 10:05 --json
  copal diff app.db /mnt/backup/app.db
  copal diff app.db redis://localhost:6379`

// diffFlags say what is compared, and how it is printed.
type diffFlags struct {
	from, to *momentFlag
	quoted   bool
	json     bool
}

func newDiff(a *app) *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:               "diff DIR [DIR] [PREFIX]",
		Short:             "Compare two moments, or two stores",
		Long:              diffHelp,
		Example:           diffExample,
		Args:              arguments(1, 3),
		ValidArgsFunction: a.completeKey(2),
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		moments := f.from.moment != nil
		switch {
		case !moments && f.to.moment != nil:
			return usageError{"--to goes with --from"}
		case !moments && len(args) == 1:
			return usageError{`compared with what? Say --from MOMENT, such as --from "10 minutes ago", or name another store`}
		case moments && isServer(args[0]):
			return errMomentFar
		case moments && len(args) > 1 && (isServer(args[1]) || requireStore(args[1]) == nil):
			return usageError{"--from compares a store with itself, and " + redacted(args[1]) + " is another one"}
		case moments && len(args) > 2:
			return usageError{"with --from the arguments are DIR [PREFIX]"}
		}
		if a.host == nil {
			defer a.catchSignals()()
		}
		if moments {
			return a.diffMoments(args, &f, out)
		}
		return a.diffStores(args, &f, out)
	})
	f.from = a.addMoment(cmd, "from", "begin with the store as it was at this `MOMENT`, such as 10m or \"2 days ago\"")
	f.to = a.addMoment(cmd, "to", "end with the store as it was at this `MOMENT`, in the place of now")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a line of JSON for each entry that differs")
	cmd.Flags().BoolVarP(&f.quoted, "quoted", "Q", false, `read PREFIX as ls shows a key: a Go string literal if it begins with "`)
	return cmd
}

// diffMoments compares a store with itself.
func (a *app) diffMoments(args []string, f *diffFlags, out *bufio.Writer) error {
	prefix, err := parseKeys(args[1:], f.quoted)
	if err != nil {
		return err
	}
	return a.view(args[0], func(db *copal.DB) error {
		before, err := f.from.open(db)
		if err != nil {
			return err
		}
		after, err := f.to.open(db)
		if err != nil {
			return errors.Join(err, before.Close())
		}
		err = a.diff(source{db: db, at: before}, source{db: db, at: after}, prefix, f, out)
		return errors.Join(err, after.Close(), before.Close())
	})
}

// diffStores compares two stores as they are.
func (a *app) diffStores(args []string, f *diffFlags, out *bufio.Writer) error {
	prefix, err := parseKeys(args[2:], f.quoted)
	if err != nil {
		return err
	}
	if isServer(args[0]) || isServer(args[1]) {
		return a.diffFar(args, prefix, f, out)
	}
	if err := requireStore(args[1]); err != nil {
		return fmt.Errorf("%w; to compare two moments of %s say --from MOMENT", err, args[0])
	}
	return a.snapshotOf(args[0], a.view, func(before source) error {
		return a.snapshotOf(args[1], a.viewOther, func(after source) error { return a.diff(before, after, prefix, f, out) })
	})
}

// viewOther is view of another store than the one of the shell.
func (a *app) viewOther(dir string, f func(db *copal.DB) error) error {
	if isServer(dir) {
		return a.reach(dir, f)
	}
	if err := requireStore(dir); err != nil {
		return err
	}
	return a.with(dir, f, copal.ReadOnly())
}

// snapshotOf lends a snapshot of a store, which view opens.
func (a *app) snapshotOf(dir string, view func(string, func(*copal.DB) error) error, f func(source) error) error {
	return view(dir, func(db *copal.DB) error {
		s, err := db.Snapshot()
		if err != nil {
			return err
		}
		return errors.Join(f(source{db: db, at: s}), s.Close())
	})
}

// diffFar compares two stores of which one at least is on a server.
func (a *app) diffFar(args []string, prefix [][]byte, f *diffFlags, out *bufio.Writer) error {
	look := func(place string, view func(string, func(*copal.DB) error) error, f func(source) error) error {
		return view(place, func(db *copal.DB) error {
			far, err := copying.Look(a.ctx, db)
			if err != nil {
				return err
			}
			defer far.Close()
			s := source{db: db, far: far}
			if !s.isMoment() {
				a.note(redacted(place) + " has no snapshots: what is written to it meanwhile may be told as a difference or not")
			}
			return f(s)
		})
	}
	return look(args[0], a.view, func(before source) error {
		return look(args[1], a.viewOther, func(after source) error { return a.diff(before, after, prefix, f, out) })
	})
}

// diff prints what two states do not have alike.
func (a *app) diff(before, after source, prefix [][]byte, f *diffFlags, out *bufio.Writer) (err error) {
	p := newDifferences(a, before, after, f.json, out)
	defer func() { err = errors.Join(err, p.scratch[0].close(), p.scratch[1].close()) }()
	if err := p.each(prefix, p.write); err != nil {
		return err
	}
	return p.writeCounts("no differences")
}

// differences prints the entries in which two states differ.
type differences struct {
	app           *app
	before, after source
	json          bool
	out           *bufio.Writer
	paint         painter
	scratch       [2]scratch // for entries of servers

	removed, added, changed int64
}

func newDifferences(a *app, before, after source, asJSON bool, out *bufio.Writer) *differences {
	return &differences{app: a, before: before, after: after, json: asJSON, out: out, paint: painterFor(a.stdout)}
}

// each calls f with each entry that differs and has a key that begins so. An entry that cannot be read is told, and the
// others follow.
func (p *differences) each(prefix [][]byte, f func(d *admin.Difference) error) error {
	from, to := prefixBounds(prefix)
	if p.before.far != nil {
		return p.eachFar(from, to, f)
	}
	for d, err := range admin.Diff(p.before.at, p.after.at, from, to) {
		switch {
		case p.app.ctx.Err() != nil:
			return p.app.ctx.Err()
		case errors.Is(err, copal.ErrClosed) || errors.Is(err, copal.ErrSnapshotLost):
			return err
		case err != nil:
			p.app.report(named(err, d.Key))
			continue
		}
		if err := f(&d); err != nil {
			return err
		}
	}
	return nil
}

// eachFar is each where one state is on a server.
func (p *differences) eachFar(from, to []byte, f func(d *admin.Difference) error) error {
	for d, err := range copying.Differences(p.before.far, p.after.far, from, to) {
		switch {
		case p.app.ctx.Err() != nil:
			return p.app.ctx.Err()
		case err != nil && d.Key == nil:
			return err
		case err == nil:
			err = p.near(&d, f)
		}
		switch {
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, copal.ErrCorrupt), errors.Is(err, copal.ErrTooLarge):
			p.app.report(fmt.Errorf("key %q: %w", d.Key, err))
		case err != nil:
			return err
		}
	}
	return nil
}

// near calls f with a difference of two stores as one of two directories, which have that entry alone.
func (p *differences) near(d *admin.Difference, f func(d *admin.Difference) error) error {
	before, after := p.before, p.after
	defer func() { p.before, p.after = before, after }()
	typed := before.far.Typed() && after.far.Typed()
	put := func(i int, from source, e *admin.Entry, then func(source) error) error {
		its := admin.Entry{Key: d.Key, Deleted: true}
		if e != nil {
			its = *e
		}
		if !typed {
			its.Codec, its.Schema, its.Content = "", "", ""
		}
		return p.scratch[i].lend(p.app.ctx, from.far, typed, []*admin.Entry{&its}, func(at *copal.Snapshot) error {
			return then(source{db: p.scratch[i].db, at: at})
		})
	}
	return put(0, before, d.A, func(one source) error {
		return put(1, after, d.B, func(other source) error {
			p.before, p.after = one, other
			for is, err := range admin.Diff(one.at, other.at, d.Key, append(bytes.Clone(d.Key), 0)) {
				if err != nil {
					return err
				}
				asWritten(is.A, d.A)
				asWritten(is.B, d.B)
				if err := f(&is); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// asWritten gives an entry the number and the time of the one that it was made of, zero where a server does not tell.
func asWritten(e, of *admin.Entry) {
	if e != nil {
		e.Seq, e.Time = of.Seq, of.Time
	}
}

// prefixBounds are the bounds of the keys that begin with a prefix, which may not be given.
func prefixBounds(prefix [][]byte) (from, to []byte) {
	if len(prefix) == 0 || len(prefix[0]) == 0 {
		return nil, nil
	}
	return prefix[0], behind(prefix[0])
}

func (p *differences) count(d *admin.Difference) {
	switch {
	case d.B == nil:
		p.removed++
	case d.A == nil:
		p.added++
	default:
		p.changed++
	}
}

// writeCounts prints how many entries differ, or that none does.
func (p *differences) writeCounts(none string) error {
	if p.json {
		return writeJSON(p.out, struct {
			Removed int64 `json:"removed"`
			Added   int64 `json:"added"`
			Changed int64 `json:"changed"`
		}{p.removed, p.added, p.changed})
	}
	text := none
	if all := p.all(); all > 0 {
		text = fmt.Sprintf("%s: %d gone, %d new, %d changed", countDiffer(all), p.removed, p.added, p.changed)
	}
	_, err := fmt.Fprintln(p.out, text)
	return err
}

func (p *differences) all() int64 { return p.removed + p.added + p.changed }

func countDiffer(n int64) string {
	if n == 1 {
		return "1 entry differs"
	}
	return fmt.Sprintf("%d entries differ", n)
}
