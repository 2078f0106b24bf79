package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/glob"
)

const watchHelp = `Print changes as they come, by this process and any other, until Ctrl-C; of the entries
whose keys begin with PREFIX if it is given, and that --match stands for.

Each line is a time, set, del, expired or drop, a key, and for set a tab and the value,
both shown as copal scan shows them. What counts together, a transaction or a batch, comes
together. That an entry has expired is told if its map has ExpiryEvents.

--after SEQ tells first what has changed since that sequence number: of a line of --json
output, or 0 for everything that the log still has. When compaction has been there since,
that cannot be told any more, and the exit code is 1. --limit ends after so many changes.

With --json each line is {"seq":…,"time":"…","op":"set","key":…,"value":…}, with "text" or
"base64" where the value is no JSON, "expires"
for an entry with a deadline. "op":"del" and "op":"expired" come without a value,
"op":"delrange" is a deletion of all keys from "key" on and before "to", and "op":"drop" is
one of a whole map. "more":true is said if further changes follow that count together with
it; take "seq" for --after from a line without.
A change of a hash, list or set has "collection":"hash". Each element that has changed has
a line with "element", which is a position in a list. "created" says that the collection is
a new one, and "from" which key it had before.

` + matchHelp

const watchExample = `  copal watch app.db
  copal watch app.db users: --json | jq .value.Name
  copal watch app.db --after 0 --limit 100`

// watchFlags say what is told, and how.
type watchFlags struct {
	selectionFlags
	json  bool
	after uint64
}

func newWatch(a *app) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:               "watch DIR [PREFIX]",
		Short:             "Follow changes as they come",
		Long:              watchHelp,
		Example:           watchExample,
		Args:              arguments(1, 2),
		ValidArgsFunction: a.completeKey(1),
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		s, err := f.parse(cmd, args[1:])
		if err != nil {
			return err
		}
		opts := []copal.WatchOption{copal.WithPrefix(s.watched())}
		if cmd.Flags().Changed("after") {
			opts = append(opts, copal.WithAfter(f.after))
		}
		if a.host == nil {
			defer a.catchSignals()()
		}
		return a.view(args[0], func(db *copal.DB) error { return a.watch(db, s, &f, opts, out) })
	})
	cmd.Flags().BoolVar(&f.json, "json", false, "print a line of JSON for each change")
	cmd.Flags().Uint64Var(&f.after, "after", 0, "tell first what has changed since this sequence number")
	cmd.Flags().Int64VarP(&f.limit, "limit", "n", 0, "end after this many changes")
	f.addMatch(cmd)
	f.addQuoted(cmd, "PREFIX")
	return cmd
}

// watched is what all selected keys begin with, as far as prefix and pattern tell.
func (s selection) watched() []byte {
	if start := glob.Literal(s.pattern); len(start) > len(s.prefix) {
		return start
	}
	return s.prefix
}

// has reports whether key is selected by prefix and pattern.
func (s selection) has(key []byte) bool {
	return strings.HasPrefix(string(key), string(s.prefix)) && (s.pattern == nil || glob.Match(s.pattern, key))
}

func (a *app) watch(db *copal.DB, s selection, f *watchFlags, opts []copal.WatchOption, out *bufio.Writer) error {
	if s.limit == 0 {
		return nil
	}
	told := int64(0)
	paint := painterFor(a.stdout)
	for c, err := range db.Watch(a.ctx, opts...) {
		switch {
		case errors.Is(err, context.Canceled):
			return nil // it is how a watch ends
		case errors.Is(err, copal.ErrHistoryLost):
			return fmt.Errorf("%w; without --after what comes from now on is told, and copal export has what there is", err)
		case errors.Is(err, errors.ErrUnsupported):
			return usageError{"watch needs a directory or a copal serve: this server tells no changes"}
		case err != nil:
			return err
		case !c.Range && !s.has(c.Key):
			continue
		}
		if err := f.write(paint, &c, out); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if told++; told == s.limit {
			return nil
		}
	}
	return nil
}

func (f *watchFlags) write(paint painter, c *copal.Change, out *bufio.Writer) error {
	now, err := changeOf(c)
	if err != nil {
		return err
	}
	if f.json {
		_, err = out.Write(now.appendJSON(out.AvailableBuffer()))
		return err
	}
	_, err = fmt.Fprintln(out, paint.paint(styleDim, now.time.Format("15:04:05.000")), now.show(paint))
	return err
}
