package main

import (
	"bufio"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

const incrHelp = `Add N, 1 if it is not given, to the whole number under a key, and print the sum.

A key without an entry counts as 0. N may be negative. The sum is written as decimal
text, and a deadline that the entry has stays. A value that is no number, or a sum
beyond 64 bits, is an error, and nothing changes.

With --json the output is one line, {"key":…,"value":…}.`

// incrFlags say what is added.
type incrFlags struct {
	json, quoted, fsync bool
	by                  int64
}

func newIncr(a *app) *cobra.Command {
	var f incrFlags
	cmd := &cobra.Command{
		Use:               "incr DIR KEY [N]",
		Short:             "Add to a number, atomically",
		Long:              incrHelp,
		Example:           "  copal incr app.db visits\n  copal incr app.db visits 10\n  copal incr app.db stock -3",
		Args:              arguments(2, 3),
		ValidArgsFunction: a.completeKey(1),
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		key, err := parseKey(args[1], f.quoted)
		if err != nil {
			return err
		}
		if len(args) == 3 {
			if cmd.Flags().Changed("by") {
				return usageError{"both N and --by say what to add"}
			}
			if f.by, err = strconv.ParseInt(args[2], 10, 64); err != nil {
				return usageError{strconv.Quote(args[2]) + " is no whole number of 64 bits"}
			}
		}
		return a.update(args[0], func(db *copal.DB) error { return f.incr(db, key, out) })
	})
	cmd.Flags().Int64Var(&f.by, "by", 1, "what to add, as N")
	cmd.Flags().BoolVar(&f.json, "json", false, "print key and sum as JSON")
	cmd.Flags().BoolVarP(&f.quoted, "quoted", "Q", false, quotedUsage)
	cmd.Flags().BoolVar(&f.fsync, "fsync", false, "sync this write by itself; without, the store is synced when it is closed")
	return cmd
}

var negative = regexp.MustCompile(`^-[0-9]+$`)

// allowNegative makes of the -3 of incr DIR KEY -3, which looks like a flag, one that is.
func allowNegative(args []string) []string {
	if len(args) == 0 || args[0] != "incr" {
		return args
	}
	args = append([]string{}, args...)
	for i, arg := range args {
		switch {
		case arg == "--":
			return args
		case negative.MatchString(arg) && args[i-1] != "--by":
			args[i] = "--by=" + arg
		}
	}
	return args
}

func (f *incrFlags) incr(db *copal.DB, key []byte, out *bufio.Writer) error {
	raw := admin.Typed(db)
	update := raw.Update
	if f.fsync {
		update = raw.UpdateFSync
	}
	var sum int64
	_, _, err := update(key, func(e *copal.Entry[[]byte]) (err error) {
		sum, err = add(e, key, f.by)
		return err
	})
	if err != nil {
		return err
	}
	if f.json {
		return writeJSON(out, struct {
			Key   any   `json:"key"`
			Value int64 `json:"value"`
		}{jsonKey(key), sum})
	}
	_, err = fmt.Fprintln(out, sum)
	return err
}

// add adds n to the number of an entry.
func add(e *copal.Entry[[]byte], key []byte, n int64) (sum int64, err error) {
	old := int64(0)
	if e.Exists {
		if old, err = strconv.ParseInt(string(e.Value), 10, 64); err != nil {
			return 0, fmt.Errorf("%s: the value is no whole number of 64 bits", showKey(key))
		}
	}
	if n > 0 && old > math.MaxInt64-n || n < 0 && old < math.MinInt64-n {
		return 0, fmt.Errorf("%s: %d and %d are beyond 64 bits", showKey(key), old, n)
	}
	e.Set(strconv.AppendInt(nil, old+n, 10))
	return old + n, nil
}
