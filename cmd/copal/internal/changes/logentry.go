package changes

import (
	"bufio"
	"errors"
	"fmt"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/fields"
)

// The versions of an entry come newest first, and each is compared with the one before, which comes
// after it.

// life prints the versions of an entry.
type life struct {
	app   *cli.App
	flags *Log
	out   *bufio.Writer
	key   []byte
	newer *copal.Version[[]byte] // not printed yet; nil at first
	after *copal.Version[[]byte] // printed last
	told  int64
	full  bool // as many are printed as are wanted
}

// LogEntry prints the versions of an entry, the newest first.
func LogEntry(a *cli.App, db *copal.DB, key []byte, f *Log, out *bufio.Writer) error {
	l := &life{app: a, flags: f, out: out, key: key}
	err := l.all(db)
	switch {
	case errors.Is(err, copal.ErrHistoryLost) && l.after != nil:
		a.Note("what it was before is gone: the store keeps no history, and has been compacted; copal history DIR 7d keeps all from now on")
		return nil
	case err != nil:
		return cli.ExplainLost(db, err)
	case l.after == nil && f.Since.Moment == nil:
		return l.nothing(db)
	}
	return nil
}

// nothing returns the error for a key without a version.
func (l *life) nothing(db *copal.DB) error {
	if wrong := admin.CheckKey(db, l.key); wrong != nil {
		return wrong
	}
	if cli.HaveKeys(cli.Source{DB: db}, l.key) {
		return fmt.Errorf("%w: %s, but keys that begin so: --prefix tells of them", copal.ErrNotFound, cli.ShowKey(l.key))
	}
	return fmt.Errorf("%w: %s, nor in the past", copal.ErrNotFound, cli.ShowKey(l.key))
}

func (l *life) all(db *copal.DB) error {
	for v, err := range db.Raw().History(l.key) {
		if err != nil && v.Seq == 0 {
			return errors.Join(l.tell(nil), err)
		}
		if err != nil {
			l.app.Report(fmt.Errorf("%s as of record %d: %w", cli.ShowKey(l.key), v.Seq, err))
		}
		if err := l.tell(&v); err != nil || l.full {
			return err
		}
		if l.app.Ctx.Err() != nil {
			return l.app.Ctx.Err()
		}
		l.newer = &v
	}
	return l.tell(nil)
}

// tell prints the newer version. The version before it is older, nil for none.
func (l *life) tell(older *copal.Version[[]byte]) error {
	v := l.newer
	l.newer = nil
	if v == nil {
		return nil
	}
	if v.Expired && !v.Deleted && (l.after == nil || !l.after.Expired || !l.after.Deleted) {
		gone := change{time: v.Deadline, op: opExpired, key: l.key, deadline: v.Deadline, fields: fields.Compare(valueOf(v), nil)}
		if err := l.write(&gone, ""); err != nil || l.full {
			return err
		}
	}
	l.after = v
	c := l.changeOf(v, older)
	return l.write(&c, deadlineChange(v, older))
}

// changeOf returns a version as a change of the previous one.
func (l *life) changeOf(v, older *copal.Version[[]byte]) change {
	c := change{seq: v.Seq, time: v.Time, op: opSet, key: l.key, deadline: v.Deadline, collection: v.Collection, value: v.Value}
	switch {
	case v.Deleted && v.Expired:
		c.op = opExpired
	case v.Deleted:
		c.op = opDel
	}
	was := valueOf(older)
	if older != nil && older.Expired && !(v.Deleted && v.Expired) { // it had expired before
		was = nil
	}
	c.fields = fields.Compare(was, valueOf(v))
	return c
}

// valueOf returns the value of a version, nil for none.
func valueOf(v *copal.Version[[]byte]) []byte {
	if v == nil || v.Deleted || v.Collection != "" {
		return nil
	}
	if v.Value == nil {
		return []byte{}
	}
	return v.Value
}

// deadlineChange returns the change of the deadline, in words.
func deadlineChange(v, older *copal.Version[[]byte]) string {
	was := time.Time{}
	if older != nil && !older.Deleted && !older.Expired {
		was = older.Deadline
	}
	switch {
	case v.Deleted || v.Deadline.Equal(was):
		return ""
	case v.Deadline.IsZero():
		return "expires no more"
	}
	return "expires " + cli.ShowTime(v.Deadline)
}

// write writes a version, if it is one of those that are wanted.
func (l *life) write(c *change, deadline string) error {
	f := l.flags
	if !f.Since.Moment.IsBefore(c.seq, c.time) {
		l.full = true
		return nil
	}
	if l.told == f.Limit {
		l.full = true
		f.tellMore(l.app, l.out, "there are older versions")
		return nil
	}
	l.told++
	if f.JSON {
		_, err := l.out.Write(c.appendJSON(l.out.AvailableBuffer()))
		return err
	}
	return l.writeText(c, deadline)
}

func (l *life) writeText(c *change, deadline string) error {
	paint := cli.PainterFor(l.app.Stdout)
	colour := cli.StyleBad
	if c.op == opSet {
		colour = cli.StyleGood
	}
	line := showWhen(paint, c.time, c.seq) + " " + paint.Paint(colour, c.op)
	if c.collection != "" {
		line += " (" + c.collection + ")"
	}
	if deadline != "" {
		line += ", " + deadline
	} else if c.op == opSet && c.collection == "" && len(c.fields) == 0 {
		line += ", the same value"
	}
	fmt.Fprintln(l.out, line)
	for _, p := range c.fields {
		fmt.Fprintln(l.out, "  "+ShowField(paint, p))
	}
	return l.out.Flush()
}
