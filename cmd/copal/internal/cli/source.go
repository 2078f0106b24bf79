package cli

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

// Source is a store that a command reads, now or at a moment.
type Source struct {
	DB  *copal.DB
	At  *copal.Snapshot // nil for the present
	Far *copying.View   // of a store on a server that is read whole; nil for others
}

// Raw returns the entries as bytes.
func (s Source) Raw() *copal.Raw {
	if s.At == nil {
		return s.DB.Raw()
	}
	return s.DB.Raw().At(s.At)
}

// keys yields the selected keys.
func (s Source) keys(sel admin.Selection) iter.Seq2[[]byte, error] {
	if s.At == nil {
		return admin.Keys(s.DB, sel)
	}
	return admin.Keys(s.At, sel)
}

// Entries yields the entries with keys in [from, to), of a moment or of a server.
func (s Source) Entries(from, to []byte) iter.Seq2[admin.Entry, error] {
	if s.Far != nil {
		return s.Far.Entries(from, to)
	}
	return admin.Entries(s.At, from, to)
}

// Moment returns the sequence number and the time of Entries, 0 and now where they are of no
// moment.
func (s Source) Moment() (seq uint64, at time.Time) {
	if s.Far != nil {
		seq, at, _ = s.Far.Moment()
		return seq, at
	}
	return s.At.Seq(), s.At.Time()
}

// IsMoment reports whether entries is of one moment.
func (s Source) IsMoment() bool {
	if s.Far == nil {
		return true
	}
	_, _, ok := s.Far.Moment()
	return ok
}

// Maps yields the name and the number of entries of each map.
func (s Source) Maps() iter.Seq2[string, int] {
	switch {
	case IsFar(s.DB): // which may have no list of them
		return func(func(string, int) bool) {}
	case s.At == nil:
		return s.DB.Maps()
	}
	return admin.Maps(s.At)
}

// MomentFlag has the value of --at MOMENT, or --since MOMENT.
type MomentFlag struct {
	app    *App
	Moment *Moment // nil for the present
}

// AddAt gives a command the flag --at. does is the command's verb for the help.
func (a *App) AddAt(cmd *cobra.Command, does string) *MomentFlag {
	return a.AddMoment(cmd, "at", does+" the store as it was at this `MOMENT`, such as 10m or \"2 days ago\"")
}

// AddMoment gives a command a flag for a moment.
func (a *App) AddMoment(cmd *cobra.Command, name, usage string) *MomentFlag {
	f := &MomentFlag{app: a}
	cmd.Flags().Var(f, name, usage)
	cmd.RegisterFlagCompletionFunc(name, completeMoment)
	return f
}

// completeMoment offers the forms of a moment.
func completeMoment(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"10m", "1h", "1d", "now"}, cobra.ShellCompDirectiveNoFileComp
}

func (f *MomentFlag) String() string {
	if f.Moment == nil {
		return ""
	}
	return f.Moment.text
}

func (f *MomentFlag) Type() string { return "MOMENT" }

func (f *MomentFlag) Set(text string) error {
	m, err := f.app.parseMoment(text)
	f.Moment = &m
	return err
}

// Open takes a snapshot of the moment, or of the present.
func (f *MomentFlag) Open(db *copal.DB) (*copal.Snapshot, error) {
	if f.Moment == nil {
		return db.Snapshot()
	}
	return f.Moment.open(db)
}

// ErrMomentFar refuses a moment of a server.
var ErrMomentFar = UsageError("a moment needs a directory: of a server the present is known alone")

// View lends the state of the moment to read, as App.View does.
func (f *MomentFlag) View(dir string, read func(s Source) error) error {
	if f.Moment != nil && IsServer(dir) {
		return ErrMomentFar
	}
	return f.app.View(dir, func(db *copal.DB) error {
		if f.Moment == nil {
			return read(Source{DB: db})
		}
		at, err := f.Moment.open(db)
		if err != nil {
			return err
		}
		return errors.Join(read(Source{DB: db, At: at}), at.Close())
	})
}

// IsFar reports whether a store is on a server.
func IsFar(db *copal.DB) bool { return opened.DriverOf(db) != nil }

// ReadWhole lends all that a store has at one moment, or on a server without moments in the
// present.
func (a *App) ReadWhole(db *copal.DB, f func(Source) error) error {
	if !IsFar(db) {
		now, err := db.Snapshot()
		if err != nil {
			return err
		}
		return errors.Join(f(Source{DB: db, At: now}), now.Close())
	}
	far, err := copying.Look(a.Ctx, db)
	if err != nil {
		return err
	}
	defer far.Close()
	return f(Source{DB: db, Far: far})
}

// ExplainLost adds the reason to an ErrHistoryLost, and the command that changes it. It returns any
// other error unchanged.
func ExplainLost(db *copal.DB, err error) error {
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
	return lostMoment{err, fmt.Sprintf("the history begins at %s (record %d), later than that; copal history tells how long it is kept, and changes that", ShowTime(w.Time), w.Seq)}
}

// lostMoment is ErrHistoryLost in the words of the command.
type lostMoment struct {
	error
	text string
}

func (e lostMoment) Error() string { return strings.TrimSpace(e.text) }
func (e lostMoment) Unwrap() error { return e.error }
