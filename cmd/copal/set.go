package main

import (
	"bufio"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

const setHelp = `Store a value under a key, in place of the one that is there.

VALUE is taken as it is; "-" stands for what comes on standard input, byte by byte, a
newline at its end among them. An entry of a map is written as JSON text, under the
map's name, a colon, and the key.

A store that is missing is created. When the command has ended, the value is on the
disk. A deadline that the entry had is gone, unless --ttl or --until gives it one.

With --json the output is one line, {"key":…,"valueBytes":…}, and with a deadline
{"key":…,"expires":"2030-12-31T23:59:59.999Z","valueBytes":…}.`

const setExample = `  copal set app.db greeting hello
  copal set app.db users:alice '{"Name":"Alice","Age":28}'
  copal set app.db avatar.png - < avatar.png
  copal set app.db session:7f3a alice --ttl 24h
  copal set app.db -- -dash 'a key that begins with a dash'`

// setFlags say how a value is written.
type setFlags struct {
	json, quoted, fsync bool
	ttl, until          string
}

func newSet(a *app) *cobra.Command {
	var f setFlags
	cmd := &cobra.Command{
		Use:               "set DIR KEY VALUE",
		Short:             "Store a value under a key",
		Long:              setHelp,
		Example:           setExample,
		Args:              arguments(3, 3),
		ValidArgsFunction: a.completeKey(1),
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		key, err := parseKey(args[1], f.quoted)
		if err != nil {
			return err
		}
		if _, err = f.deadline(); err != nil {
			return err
		}
		for _, name := range []string{"ttl", "until"} {
			if cmd.Flags().Changed(name) && f.ttl+f.until == "" { // of a script's variable that is not set
				return usageError{"--" + name + " is empty"}
			}
		}
		value, err := a.readValue(args[2]) // before the store is opened: it may take long
		if err != nil {
			return err
		}
		return a.updateOrCreate(args[0], func(db *copal.DB) error {
			if err := a.fitsServed(args[0], key, value); err != nil {
				return err
			}
			return f.set(db, key, value, out)
		})
	})
	cmd.Flags().BoolVar(&f.json, "json", false, "print what was written as JSON")
	cmd.Flags().BoolVarP(&f.quoted, "quoted", "Q", false, quotedUsage)
	cmd.Flags().BoolVar(&f.fsync, "fsync", false, "sync this write by itself; without, the store is synced when it is closed")
	cmd.Flags().StringVar(&f.ttl, "ttl", "", "let the entry expire after this `time`, such as 90s, 36h or 7d")
	cmd.Flags().StringVar(&f.until, "until", "", "let the entry expire at this `moment`, such as 2030-12-31T23:59:59Z")
	exclude(cmd, "ttl", "until")
	return cmd
}

// deadline is when the entry is to expire, the zero time for never.
func (f *setFlags) deadline() (time.Time, error) {
	switch {
	case f.ttl != "":
		ttl, err := parseTTL(f.ttl)
		return time.Now().Add(ttl), err
	case f.until != "":
		return parseDeadlineAt(f.until)
	}
	return time.Time{}, nil
}

func (f *setFlags) set(db *copal.DB, key, value []byte, out *bufio.Writer) error {
	deadline, err := f.deadline()
	if err != nil {
		return err
	}
	raw := admin.Typed(db)
	if f.fsync {
		raw = raw.With(copal.FSync)
	}
	if deadline.IsZero() {
		err = raw.Set(key, value)
	} else {
		err = raw.SetUntil(key, value, deadline)
	}
	if err != nil || !f.json {
		return err
	}
	expires, err := expiry(raw, key)
	if err != nil {
		return err
	}
	return writeJSON(out, struct {
		Key        any       `json:"key"`
		Expires    *jsonTime `json:"expires,omitempty"`
		ValueBytes int       `json:"valueBytes"`
	}{jsonKey(key), expires, len(value)})
}
