package changes

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// changes prints the log of a store.
type changes struct {
	app    *cli.App
	flags  *Log
	out    *bufio.Writer
	last   [][]byte // lines that are printed at the end, when a limit is set; in a ring
	told   int64
	totals map[string]*total
}

// total has the counts of changes for the keys with a prefix.
type total struct {
	Prefix  string `json:"prefix"` // up to the first colon; "" for keys without one
	Set     int64  `json:"set"`
	Del     int64  `json:"del"`
	Expired int64  `json:"expired"`
	Ranges  int64  `json:"delranges"`
}

// LogStore prints the changes of a store, and their totals.
func LogStore(a *cli.App, db *copal.DB, prefix []byte, f *Log, out *bufio.Writer) error {
	after, err := logFrom(a, db, f.Since.Moment)
	if err != nil {
		return err
	}
	now, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer now.Close()
	l := &changes{app: a, flags: f, out: out, totals: map[string]*total{}}
	for c, err := range db.Watch(a.Ctx, copal.WithPrefix(prefix), copal.WithAfter(after), copal.WithUntil(now.Seq())) {
		switch {
		case errors.Is(err, context.Canceled):
			return cli.ErrInterrupted
		case err != nil:
			return cli.ExplainLost(db, err)
		case !f.Since.Moment.IsBefore(c.Seq, c.Time):
			continue
		}
		if err := l.tell(&c); err != nil {
			return err
		}
	}
	return l.end()
}

// logFrom returns the number of the record after which the log is read: the moment if it is a
// number, else the beginning of history.
func logFrom(a *cli.App, db *copal.DB, since *cli.Moment) (uint64, error) {
	w, some := admin.History(db)
	if !some && (since == nil || since.Seq == nil) { // a number may be one that the log has not lost
		return 0, cli.ExplainLost(db, copal.ErrHistoryLost)
	}
	if since != nil && w.Seq > 0 && !w.Time.IsZero() && !since.IsNow() && since.IsBefore(w.Seq, w.Time) {
		a.Note(fmt.Sprintf("the history begins at %s (record %d), later than that", cli.ShowTime(w.Time), w.Seq))
	}
	if since != nil && since.Seq != nil {
		return max(*since.Seq, w.Seq), nil
	}
	return w.Seq, nil
}

func (l *changes) tell(c *copal.Change) error {
	l.count(c)
	if l.flags.Limit == 0 {
		return nil
	}
	now, err := changeOf(c)
	if errors.Is(err, copal.ErrHistoryLost) { // of a large value that was replaced
		now.value, err = []byte("(a large value that is gone)"), nil
	}
	if err != nil {
		return err
	}
	l.told++
	line := l.line(&now)
	if l.flags.Limit < 0 {
		_, err = l.out.Write(line)
		return err
	}
	if int64(len(l.last)) < l.flags.Limit {
		l.last = append(l.last, line)
	} else {
		l.last[(l.told-1)%l.flags.Limit] = line
	}
	return nil
}

func (l *changes) line(c *change) []byte {
	if l.flags.JSON {
		return c.appendJSON(nil)
	}
	paint := cli.PainterFor(l.app.Stdout)
	line := showWhen(paint, c.time, c.seq) + " " + c.show(paint)
	if !c.deadline.IsZero() && c.op == opSet {
		line += ", expires " + cli.ShowTime(c.deadline)
	}
	return []byte(line + "\n")
}

func (l *changes) count(c *copal.Change) {
	name := ""
	if i := bytes.IndexByte(c.Key, ':'); i >= 0 {
		name = string(c.Key[:i+1])
	}
	t := l.totals[name]
	if t == nil {
		t = &total{Prefix: name}
		l.totals[name] = t
	}
	switch {
	case c.Range:
		t.Ranges++
	case c.Expired:
		t.Expired++
	case c.Deleted:
		t.Del++
	default:
		t.Set++
	}
}

// end prints the changes held back, and the totals.
func (l *changes) end() error {
	if n := int64(len(l.last)); n > 0 {
		if l.told > n {
			l.flags.tellMore(l.app, l.out, fmt.Sprintf("%d earlier changes", l.told-n))
		}
		for i := range n {
			if _, err := l.out.Write(l.last[(l.told+i)%n]); err != nil {
				return err
			}
		}
	}
	list := slices.SortedFunc(maps.Values(l.totals), func(a, b *total) int { return cmp.Compare(a.Prefix, b.Prefix) })
	if l.flags.JSON {
		return cli.WriteJSON(l.out, struct {
			Totals []*total `json:"totals"`
		}{append([]*total{}, list...)})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(l.out, "nothing has changed")
		return err
	}
	return l.writeTotals(list)
}

func (l *changes) writeTotals(list []*total) error {
	if l.told > 0 {
		fmt.Fprintln(l.out)
	}
	w := tabwriter.NewWriter(l.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\tset\tdel\texpired\tranges")
	for _, t := range list {
		name := "other keys"
		if t.Prefix != "" {
			name = cli.ShowKey([]byte(t.Prefix))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", name, t.Set, t.Del, t.Expired, t.Ranges)
	}
	return w.Flush()
}
