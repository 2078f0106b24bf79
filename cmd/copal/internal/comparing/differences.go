package comparing

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/scratch"
	"github.com/copaldb/copal/internal/copying"
)

// Diff has the flags of diff.
type Diff struct {
	From, To *cli.MomentFlag
	Quoted   bool
	JSON     bool
}

// Run compares two moments, or two stores. The arguments are those of the command.
func (f *Diff) Run(a *cli.App, args []string, out *bufio.Writer) error {
	moments := f.From.Moment != nil
	switch {
	case !moments && f.To.Moment != nil:
		return cli.UsageError("--to goes with --from")
	case !moments && len(args) == 1:
		return cli.UsageError(`compared with what? Say --from MOMENT, such as --from "10 minutes ago", or name another store`)
	case moments && cli.IsServer(args[0]):
		return cli.ErrMomentFar
	case moments && len(args) > 1 && (cli.IsServer(args[1]) || cli.RequireStore(args[1]) == nil):
		return cli.UsageError("--from compares a store with itself, and " + cli.Redacted(args[1]) + " is another one")
	case moments && len(args) > 2:
		return cli.UsageError("with --from the arguments are DIR [PREFIX]")
	}
	if a.Host == nil {
		defer a.CatchSignals()()
	}
	if moments {
		return diffMoments(a, args, f, out)
	}
	return diffStores(a, args, f, out)
}

// diffMoments compares a store with itself.
func diffMoments(a *cli.App, args []string, f *Diff, out *bufio.Writer) error {
	prefix, err := cli.ParseKeys(args[1:], f.Quoted)
	if err != nil {
		return err
	}
	return a.View(args[0], func(db *copal.DB) error {
		before, err := f.From.Open(db)
		if err != nil {
			return err
		}
		after, err := f.To.Open(db)
		if err != nil {
			return errors.Join(err, before.Close())
		}
		err = printDiff(a, cli.Source{DB: db, At: before}, cli.Source{DB: db, At: after}, prefix, f, out)
		return errors.Join(err, after.Close(), before.Close())
	})
}

// diffStores compares the present states of two stores.
func diffStores(a *cli.App, args []string, f *Diff, out *bufio.Writer) error {
	prefix, err := cli.ParseKeys(args[2:], f.Quoted)
	if err != nil {
		return err
	}
	if cli.IsServer(args[0]) || cli.IsServer(args[1]) {
		return diffFar(a, args, prefix, f, out)
	}
	if err := cli.RequireStore(args[1]); err != nil {
		return fmt.Errorf("%w; to compare two moments of %s say --from MOMENT", err, args[0])
	}
	return snapshotOf(a, args[0], a.View, func(before cli.Source) error {
		return snapshotOf(a, args[1], a.ViewOther, func(after cli.Source) error { return printDiff(a, before, after, prefix, f, out) })
	})
}

// snapshotOf lends a snapshot of a store, which view opens.
func snapshotOf(a *cli.App, dir string, view func(string, func(*copal.DB) error) error, f func(cli.Source) error) error {
	return view(dir, func(db *copal.DB) error {
		s, err := db.Snapshot()
		if err != nil {
			return err
		}
		return errors.Join(f(cli.Source{DB: db, At: s}), s.Close())
	})
}

// diffFar compares two stores, at least one of them on a server.
func diffFar(a *cli.App, args []string, prefix [][]byte, f *Diff, out *bufio.Writer) error {
	look := func(place string, view func(string, func(*copal.DB) error) error, f func(cli.Source) error) error {
		return view(place, func(db *copal.DB) error {
			far, err := copying.Look(a.Ctx, db)
			if err != nil {
				return err
			}
			defer far.Close()
			s := cli.Source{DB: db, Far: far}
			if !s.IsMoment() {
				a.Note(cli.Redacted(place) + " has no snapshots: what is written to it meanwhile may be told as a difference or not")
			}
			return f(s)
		})
	}
	return look(args[0], a.View, func(before cli.Source) error {
		return look(args[1], a.ViewOther, func(after cli.Source) error { return printDiff(a, before, after, prefix, f, out) })
	})
}

// printDiff prints the differences of two states.
func printDiff(a *cli.App, before, after cli.Source, prefix [][]byte, f *Diff, out *bufio.Writer) (err error) {
	p := newDifferences(a, before, after, f.JSON, out)
	defer func() { err = errors.Join(err, p.scratch[0].Close(), p.scratch[1].Close()) }()
	if err := p.each(prefix, p.write); err != nil {
		return err
	}
	return p.writeCounts("no differences")
}

// differences prints the entries in which two states differ.
type differences struct {
	app           *cli.App
	before, after cli.Source
	json          bool
	out           *bufio.Writer
	paint         cli.Painter
	scratch       [2]scratch.Scratch // for entries of servers

	removed, added, changed int64
}

func newDifferences(a *cli.App, before, after cli.Source, asJSON bool, out *bufio.Writer) *differences {
	return &differences{app: a, before: before, after: after, json: asJSON, out: out, paint: cli.PainterFor(a.Stdout)}
}

// each calls f with each entry that differs and whose key has the prefix. An entry that cannot be
// read is reported, and the others follow.
func (p *differences) each(prefix [][]byte, f func(d *admin.Difference) error) error {
	from, to := prefixBounds(prefix)
	if p.before.Far != nil {
		return p.eachFar(from, to, f)
	}
	for d, err := range admin.Diff(p.before.At, p.after.At, from, to) {
		switch {
		case p.app.Ctx.Err() != nil:
			return p.app.Ctx.Err()
		case errors.Is(err, copal.ErrClosed) || errors.Is(err, copal.ErrSnapshotLost):
			return err
		case err != nil:
			p.app.Report(cli.Named(err, d.Key))
			continue
		}
		if err := f(&d); err != nil {
			return err
		}
	}
	return nil
}

// eachFar does the same as each if a state is on a server.
func (p *differences) eachFar(from, to []byte, f func(d *admin.Difference) error) error {
	for d, err := range copying.Differences(p.before.Far, p.after.Far, from, to) {
		switch {
		case p.app.Ctx.Err() != nil:
			return p.app.Ctx.Err()
		case err != nil && d.Key == nil:
			return err
		case err == nil:
			err = p.near(&d, f)
		}
		switch {
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, copal.ErrCorrupt), errors.Is(err, copal.ErrTooLarge):
			p.app.Report(fmt.Errorf("key %q: %w", d.Key, err))
		case err != nil:
			return err
		}
	}
	return nil
}

// near calls f with a difference of two stores as one of two directories, which have that entry
// alone.
func (p *differences) near(d *admin.Difference, f func(d *admin.Difference) error) error {
	before, after := p.before, p.after
	defer func() { p.before, p.after = before, after }()
	typed := before.Far.Typed() && after.Far.Typed()
	put := func(i int, from cli.Source, e *admin.Entry, then func(cli.Source) error) error {
		its := admin.Entry{Key: d.Key, Deleted: true}
		if e != nil {
			its = *e
		}
		if !typed {
			its.Codec, its.Schema, its.Content = "", "", ""
		}
		return p.scratch[i].Lend(p.app.Ctx, from.Far, typed, []*admin.Entry{&its}, func(at *copal.Snapshot) error {
			return then(cli.Source{DB: p.scratch[i].DB, At: at})
		})
	}
	return put(0, before, d.A, func(one cli.Source) error {
		return put(1, after, d.B, func(other cli.Source) error {
			p.before, p.after = one, other
			for is, err := range admin.Diff(one.At, other.At, d.Key, append(bytes.Clone(d.Key), 0)) {
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

// asWritten gives an entry the number and the time of its original, zero where a server does not
// have them.
func asWritten(e, of *admin.Entry) {
	if e != nil {
		e.Seq, e.Time = of.Seq, of.Time
	}
}

// prefixBounds returns the bounds of the keys that begin with a prefix, which may be missing.
func prefixBounds(prefix [][]byte) (from, to []byte) {
	if len(prefix) == 0 || len(prefix[0]) == 0 {
		return nil, nil
	}
	return prefix[0], cli.Behind(prefix[0])
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
		return cli.WriteJSON(p.out, struct {
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
