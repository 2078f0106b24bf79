package main

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/opened"
)

// source is what a command reads: a store as it is, or as it was at a moment.
type source struct {
	db  *copal.DB
	at  *copal.Snapshot // nil for the present
	far *copying.View   // of a store on a server that is read whole; nil for others
}

func (s source) raw() *copal.Raw {
	if s.at == nil {
		return s.db.Raw()
	}
	return s.db.Raw().At(s.at)
}

// keys yields the keys in [from, to).
func (s source) keys(from, to []byte, backward bool) iter.Seq2[[]byte, error] {
	if s.at == nil {
		return admin.Keys(s.db, from, to, backward)
	}
	return admin.Keys(s.at, from, to, backward)
}

// entries yields the entries with keys in [from, to), of a moment or of a server.
func (s source) entries(from, to []byte) iter.Seq2[admin.Entry, error] {
	if s.far != nil {
		return s.far.Entries(from, to)
	}
	return admin.Entries(s.at, from, to)
}

// moment is the sequence number and the time of what entries yields, 0 and now where that is of no moment.
func (s source) moment() (seq uint64, at time.Time) {
	if s.far != nil {
		seq, at, _ = s.far.Moment()
		return seq, at
	}
	return s.at.Seq(), s.at.Time()
}

// isMoment reports whether entries is of one moment.
func (s source) isMoment() bool {
	if s.far == nil {
		return true
	}
	_, _, ok := s.far.Moment()
	return ok
}

// maps yields the name and the number of entries of each map.
func (s source) maps() iter.Seq2[string, int] {
	if s.at == nil {
		return s.db.Maps()
	}
	return admin.Maps(s.at)
}

// momentFlag is --at MOMENT, or --since MOMENT.
type momentFlag struct {
	app    *app
	moment *moment // nil for the present
}

// addAt gives a command the flag --at, for what it does.
func (a *app) addAt(cmd *cobra.Command, does string) *momentFlag {
	return a.addMoment(cmd, "at", does+" the store as it was at this `MOMENT`, such as 10m or \"2 days ago\"")
}

func (a *app) addMoment(cmd *cobra.Command, name, usage string) *momentFlag {
	f := &momentFlag{app: a}
	cmd.Flags().Var(f, name, usage)
	cmd.RegisterFlagCompletionFunc(name, completeMoment)
	return f
}

// completeMoment offers the forms of a moment.
func completeMoment(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"10m", "1h", "1d", "now"}, cobra.ShellCompDirectiveNoFileComp
}

func (f *momentFlag) String() string {
	if f.moment == nil {
		return ""
	}
	return f.moment.text
}

func (f *momentFlag) Type() string { return "MOMENT" }

func (f *momentFlag) Set(text string) error {
	m, err := f.app.parseMoment(text)
	f.moment = &m
	return err
}

// open takes a snapshot of the moment, or of the present.
func (f *momentFlag) open(db *copal.DB) (*copal.Snapshot, error) {
	if f.moment == nil {
		return db.Snapshot()
	}
	return f.moment.open(db)
}

var errMomentFar = usageError{"a moment needs a directory: of a server the present is known alone"}

// view lends the state of the moment to read, as app.view does.
func (f *momentFlag) view(dir string, read func(s source) error) error {
	if f.moment != nil && isServer(dir) {
		return errMomentFar
	}
	return f.app.view(dir, func(db *copal.DB) error {
		if f.moment == nil {
			return read(source{db: db})
		}
		at, err := f.moment.open(db)
		if err != nil {
			return err
		}
		return errors.Join(read(source{db: db, at: at}), at.Close())
	})
}

// isFar reports whether a store is on a server.
func isFar(db *copal.DB) bool { return opened.DriverOf(db) != nil }

// readWhole lends all that a store has at one moment, or on a server without moments in the present.
func (a *app) readWhole(db *copal.DB, f func(source) error) error {
	if !isFar(db) {
		now, err := db.Snapshot()
		if err != nil {
			return err
		}
		return errors.Join(f(source{db: db, at: now}), now.Close())
	}
	far, err := copying.Look(a.ctx, db)
	if err != nil {
		return err
	}
	defer far.Close()
	return f(source{db: db, far: far})
}

// explainLost says of a moment that can be read no more since when moments can, and how more are kept.
func explainLost(db *copal.DB, err error) error {
	if !errors.Is(err, copal.ErrHistoryLost) {
		return err
	}
	w, some := admin.History(db)
	switch {
	case !some:
		return lostMoment{err, "this store keeps no history, and what was before is gone: copal history DIR 7d keeps all from now on, as copal.WithHistory does in a program"}
	case w.Seq == 0:
		return lostMoment{err, "the store was made later than that"}
	}
	return lostMoment{err, fmt.Sprintf("the history begins at %s (record %d), later than that; copal history tells how long it is kept, and changes that", showTime(w.Time), w.Seq)}
}

// lostMoment is ErrHistoryLost in the words of the command.
type lostMoment struct {
	error
	text string
}

func (e lostMoment) Error() string { return strings.TrimSpace(e.text) }
func (e lostMoment) Unwrap() error { return e.error }
