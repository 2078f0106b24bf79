package main

import (
	"bufio"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
)

const ttlHelp = `Print how long an entry has to live, "none" for one that stays; or change that.

TIME is how long from now, such as 90s, 36h or 7d; a moment such as
2030-12-31T23:59:59Z; or none, which makes the entry stay. The value stays in any case.
Only to change it the store is opened for writing.

With --json the output is one line, {"key":…,"expires":"2030-12-31T23:59:59.999Z",
"ttlMillis":…}, and for an entry that stays {"key":…,"expires":null,"ttlMillis":null}.

If there is no entry for the key, the exit code is 3.`

func newTTL(a *app) *cobra.Command {
	var asJSON, quoted bool
	cmd := &cobra.Command{
		Use:               "ttl DIR KEY [TIME]",
		Short:             "Show or change when an entry expires",
		Long:              ttlHelp,
		Example:           "  copal ttl app.db session:7f3a\n  copal ttl app.db session:7f3a 24h\n  copal ttl app.db session:7f3a none",
		Args:              arguments(2, 3),
		ValidArgsFunction: a.completeKey(1),
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			key, err := parseKey(args[1], quoted)
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return a.view(args[0], func(db *copal.DB) error { return a.showDeadline(db, key, asJSON, out) })
			}
			change, err := parseDeadline(args[2])
			if err != nil {
				return err
			}
			return a.update(args[0], func(db *copal.DB) error {
				if err := change(db, key); err != nil {
					return a.missing(source{db: db}, err, key)
				}
				if !asJSON {
					return nil
				}
				return a.showDeadline(db, key, asJSON, out)
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print key and deadline as JSON")
	cmd.Flags().BoolVarP(&quoted, "quoted", "Q", false, quotedUsage)
	return cmd
}

// parseDeadline is the change of a deadline that TIME stands for.
func parseDeadline(text string) (change func(db *copal.DB, key []byte) error, err error) {
	if text == "none" {
		return func(db *copal.DB, key []byte) error { return db.Raw().Persist(key) }, nil
	}
	if ttl, err := parseTTL(text); err == nil {
		return func(db *copal.DB, key []byte) error { return db.Raw().Expire(key, ttl) }, nil
	} else if _, failed := time.Parse(time.RFC3339Nano, text); failed != nil {
		return nil, err
	}
	t, err := parseDeadlineAt(text)
	return func(db *copal.DB, key []byte) error { return db.Raw().ExpireAt(key, t) }, err
}

// named adds the key to ErrNotFound.
func named(err error, key []byte) error {
	if isGone(err) {
		return notFound{key: showKey(key)}
	}
	return err
}

func (a *app) showDeadline(db *copal.DB, key []byte, asJSON bool, out *bufio.Writer) error {
	expires, err := expiry(db.Raw(), key)
	if err != nil {
		return a.missing(source{db: db}, err, key)
	}
	var millis *int64
	left := "none"
	if expires != nil {
		now := time.Now()
		d, ms := max(time.Time(*expires).Sub(now), 0), max(time.Time(*expires).UnixMilli()-now.UnixMilli(), 0)
		millis, left = &ms, showTTL(d)
		if d == math.MaxInt64 { // and there is more than that
			left = showDays(ms)
		}
	}
	if asJSON {
		return writeJSON(out, struct {
			Key       any       `json:"key"`
			Expires   *jsonTime `json:"expires"`
			TTLMillis *int64    `json:"ttlMillis"`
		}{jsonKey(key), expires, millis})
	}
	_, err = fmt.Fprintln(out, left)
	return err
}
