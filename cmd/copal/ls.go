package main

import (
	"bufio"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/ndjson"
)

const lsHelp = `List the keys of a store, those that begin with PREFIX if it is given.

Keys come in the order of their bytes, one on each line. A key that is empty, or holds
control characters, bytes that are not UTF-8 or a double quote or a space at its
edge, is shown as a Go string literal in double quotes, so that a line is always one
key; get --quoted takes it back. With --null keys are written as they are, each
followed by a NUL byte.

--from and --to select keys as copal range does, --match those that a pattern stands for.
` + matchHelp + `

--at MOMENT lists those that there were then; see copal --help.

With --long the size of the value in bytes stands before the key, which means that
every value is read. With --json each line is {"key":…}, and with --long
{"key":…,"valueBytes":…}; a key that is not UTF-8 is given as {"base64":"…"}. The key
of an entry with a deadline is followed by "expires":"2030-12-31T23:59:59.999Z".`

const lsExample = `  copal ls app.db
  copal ls app.db users: --limit 10
  copal ls app.db --long | sort -rn | head    # the largest values
  copal ls app.db --null | xargs -0 -n1 copal get app.db --`

// lsFlags say how a key is written.
type lsFlags struct {
	selectionFlags
	json, null, long bool
}

func newLs(a *app) *cobra.Command {
	var f lsFlags
	var at *momentFlag
	var exists existsFlag
	cmd := &cobra.Command{
		Use:               "ls DIR [PREFIX]",
		Short:             "List the keys of a store, in order",
		Long:              lsHelp,
		Example:           lsExample,
		Args:              arguments(1, 2),
		ValidArgsFunction: a.completeKey(1),
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		if f.null && (f.json || f.long) {
			return usageError{"--null goes with neither --json nor --long"}
		}
		s, err := f.parse(cmd, args[1:])
		if err != nil {
			return err
		}
		return at.view(args[0], func(from source) error {
			if err := exists.check(a, from, s.prefix, s.from); err != nil {
				return err
			}
			return f.list(a, from, s, out)
		})
	})
	cmd.Flags().BoolVar(&f.json, "json", false, "print a line of JSON for each key")
	cmd.Flags().BoolVarP(&f.null, "null", "0", false, "print keys as they are, each followed by a NUL byte")
	cmd.Flags().BoolVarP(&f.long, "long", "l", false, "print the size of each value too")
	f.addRange(cmd)
	f.addLimit(cmd, "keys")
	f.addMatch(cmd)
	f.addQuoted(cmd, "PREFIX, --from and --to")
	exists.add(cmd)
	at = a.addAt(cmd, "read")
	return cmd
}

func (f *lsFlags) list(a *app, from source, s selection, out *bufio.Writer) error {
	failed := error(nil)
	meter, endFirst := a.newOutputMeter("listing", "keys", s, from.raw().Len())
	defer meter.end()
	a.collection = func(c *copal.CollectionError) { f.writeCollection(c, out) }
	defer func() { a.collection = nil }()
	for key, size := range f.entries(a, from, s) {
		if meter.add(); endFirst {
			meter.end()
		}
		var expires *jsonTime
		if f.json {
			var err error
			if expires, err = expiry(from.raw(), key); isGone(err) {
				continue
			} else if failed == nil {
				failed = err // and the keys go on
			}
		}
		if err := f.write(out, key, size, expires); err != nil {
			return err
		}
	}
	return errors.Join(failed, a.ctx.Err())
}

// isGone reports whether err says that an entry has gone since its key was found.
func isGone(err error) bool { return errors.Is(err, copal.ErrNotFound) }

// entries yields keys and, if they are asked for, the sizes of their values.
func (f *lsFlags) entries(a *app, from source, s selection) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		if !f.long {
			for key := range a.keys(from, s) {
				if !yield(key, 0) {
					return
				}
			}
			return
		}
		for key, value := range a.valuesOf(from, a.keys(from, s)) {
			if !yield(key, len(value)) {
				return
			}
		}
	}
}

// writeCollection writes what has no value, and no size.
func (f *lsFlags) writeCollection(c *copal.CollectionError, out *bufio.Writer) {
	if f.json {
		out.Write(ndjson.AppendKey([]byte(`{"key":`), c.Key))
		fmt.Fprintf(out, ",\"collection\":%q}\n", c.Type)
		return
	}
	fmt.Fprintf(out, "%10s  %s\n", c.Type, showKey(c.Key))
}

func (f *lsFlags) write(out *bufio.Writer, key []byte, size int, expires *jsonTime) (err error) {
	switch {
	case f.json && f.long:
		return writeJSON(out, struct {
			Key        any       `json:"key"`
			Expires    *jsonTime `json:"expires,omitempty"`
			ValueBytes int       `json:"valueBytes"`
		}{jsonKey(key), expires, size})
	case f.json:
		return writeJSON(out, struct {
			Key     any       `json:"key"`
			Expires *jsonTime `json:"expires,omitempty"`
		}{jsonKey(key), expires})
	case f.null:
		_, err = out.Write(append(key, 0))
	case f.long:
		_, err = fmt.Fprintf(out, "%10d  %s\n", size, showKey(key))
	default:
		_, err = out.WriteString(showKey(key) + "\n")
	}
	return err
}
