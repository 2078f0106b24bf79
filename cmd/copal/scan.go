package main

import (
	"bufio"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/ndjson"
)

const scanHelp = `Print the entries whose keys begin with PREFIX, all if it is not given, in the order of
the bytes of their keys.

Each line is a key, a tab, and a value. Keys are shown as copal ls shows them. A value
is shown as it is, JSON for instance; one that is empty, begins with b", has a space at
its edge, or holds what cannot be seen on a line is shown as a Go string literal behind
a b: b"\x00\xff". Of a key that holds a hash, a list or a set that is said: (hash).

--at MOMENT prints those that there were then; see copal --help.

With --json each line is {"key":…,"value":…}, with "text" or "base64" where the value is
no JSON, as of copal get.`

const scanExample = `  copal scan app.db users:
  copal scan app.db users: --match '*:settings' --limit 10
  copal scan app.db --json users: | jq .value.Name`

const rangeHelp = `Print the entries with keys in [FROM, TO), in the order of the bytes of their keys: FROM is
among them, and TO is not. Without TO it goes to the last key; an empty FROM begins with
the first. With --reverse FROM is still the smaller one.

The output is that of copal scan.`

const rangeExample = `  copal range app.db log:2026-11-01 log:2026-12-01
  copal range app.db log: --limit 100
  copal range app.db '' users: --reverse --keys`

// scanFlags say how entries are written.
type scanFlags struct {
	selectionFlags
	json, keys bool
}

func newScan(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scan DIR [PREFIX]",
		Short:   "Print entries, in order, by prefix",
		Long:    scanHelp,
		Example: scanExample,
		Args:    arguments(1, 2),
	}
	a.makeScan(cmd, "PREFIX", func(s *selection, keys [][]byte) {
		if len(keys) > 0 {
			s.prefix = keys[0]
		}
	})
	return cmd
}

func newRange(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "range DIR FROM [TO]",
		Short:   "Print entries, in order, from a key up to another",
		Long:    rangeHelp,
		Example: rangeExample,
		Args:    arguments(2, 3),
	}
	a.makeScan(cmd, "FROM and TO", func(s *selection, keys [][]byte) {
		if s.from = keys[0]; len(keys) > 1 {
			s.to = keys[1]
		}
	})
	return cmd
}

// makeScan completes a command that prints entries. bound says what the arguments mean.
func (a *app) makeScan(cmd *cobra.Command, words string, bound func(s *selection, keys [][]byte)) {
	var f scanFlags
	var at *momentFlag
	var exists existsFlag
	cmd.ValidArgsFunction = a.completeKey(2)
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		s, err := f.parse(cmd, nil)
		if err != nil {
			return err
		}
		keys, err := parseKeys(args[1:], f.quoted)
		if err != nil {
			return err
		}
		bound(&s, keys)
		return at.view(args[0], func(from source) error {
			if err := exists.check(a, from, keys...); err != nil {
				return err
			}
			return a.scan(from, s, &f, out)
		})
	})
	cmd.Flags().BoolVar(&f.json, "json", false, "print a line of JSON for each entry")
	cmd.Flags().BoolVarP(&f.keys, "keys", "k", false, "print keys alone, and read no values")
	cmd.Flags().BoolVarP(&f.reverse, "reverse", "r", false, "go backward, from the last key")
	f.addLimit(cmd, "entries")
	f.addMatch(cmd)
	f.addQuoted(cmd, words)
	exists.add(cmd)
	at = a.addAt(cmd, "read")
}

func (a *app) scan(from source, s selection, f *scanFlags, out *bufio.Writer) error {
	if f.keys {
		list := lsFlags{json: f.json}
		return list.list(a, from, s, out)
	}
	paint := painterFor(a.stdout)
	meter, endFirst := a.newOutputMeter("reading", "entries", s, from.raw().Len())
	defer meter.end()
	a.collection = func(c *copal.CollectionError) { f.writeCollection(paint, c, out) }
	defer func() { a.collection = nil }()
	for key, value := range a.entries(from, s) {
		if meter.add(); endFirst {
			meter.end()
		}
		if err := f.write(from, paint, key, value, out); err != nil {
			return err
		}
	}
	return a.ctx.Err()
}

func (f *scanFlags) write(from source, paint painter, key, value []byte, out *bufio.Writer) (err error) {
	if f.json {
		expires, err := expiry(from.raw(), key)
		if isGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return writeEntry(out, key, expires, value)
	}
	_, err = out.WriteString(paint.paint(styleKey, showKey(key)) + "\t" + showValue(value) + "\n")
	return err
}

// writeCollection writes what holds no value. An error of out shows at the next entry, or at the end.
func (f *scanFlags) writeCollection(paint painter, c *copal.CollectionError, out *bufio.Writer) {
	if f.json {
		out.Write(ndjson.AppendKey([]byte(`{"key":`), c.Key))
		fmt.Fprintf(out, ",\"collection\":%q}\n", c.Type)
		return
	}
	fmt.Fprintf(out, "%s\t(%s)\n", paint.paint(styleKey, showKey(c.Key)), c.Type)
}

// writeEntry writes an entry as a line of JSON, in the form of an export.
func writeEntry(out *bufio.Writer, key []byte, expires *jsonTime, value []byte) error {
	line := ndjson.AppendKey(append(out.AvailableBuffer(), `{"key":`...), key)
	line = appendExpires(line, expires)
	line = ndjson.AppendValue(append(line, ','), value)
	_, err := out.Write(append(line, "}\n"...))
	return err
}

// appendExpires appends the field of a deadline, if there is one.
func appendExpires(line []byte, expires *jsonTime) []byte {
	if expires == nil {
		return line
	}
	return ndjson.AppendTime(append(line, `,"expires":`...), time.Time(*expires))
}
