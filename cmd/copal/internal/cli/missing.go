package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// A missing key may be mistyped: a map's key in a spelling that none of its keys has, or the name
// of the map.

// Missing returns an ErrNotFound with its key, and with the part that may be mistyped. It returns
// any other error unchanged.
func (a *App) Missing(s Source, err error, key []byte) error {
	if !IsGone(err) {
		return err
	}
	if wrong := admin.CheckKey(s.DB, key); wrong != nil {
		return wrong
	}
	text := ""
	if IsTerminal(a.Stderr) {
		text = UnknownMap(s, key)
	}
	return NotFound{ShowKey(key), text}
}

// NotFound is an ErrNotFound in the words of the command.
type NotFound struct{ Key, Text string }

func (e NotFound) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%v: %s", copal.ErrNotFound, e.Key)
	}
	return fmt.Sprintf("%v: %s: %s", copal.ErrNotFound, e.Key, e.Text)
}

func (e NotFound) Unwrap() error { return copal.ErrNotFound }

// ExistsFlag is --exists.
type ExistsFlag bool

// Add gives a command the flag.
func (f *ExistsFlag) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar((*bool)(f), "exists", false, "fail with exit code 3 if there is no such map")
}

// Check returns an error if the map of a prefix is unknown. Without the flag it prints a note on a
// terminal. A prefix without a colon is not checked, since it may be part of a name.
func (f ExistsFlag) Check(a *App, s Source, prefixes ...[]byte) error {
	if !bool(f) && !IsTerminal(a.Stderr) {
		return nil
	}
	for _, prefix := range prefixes {
		text := UnknownMap(s, prefix)
		if text == "" {
			continue
		}
		if bool(f) {
			return NotFound{ShowKey(prefix), text}
		}
		a.Note(text)
	}
	return nil
}

// UnknownMap reports that the store has no map of the name that a key begins with, and the nearest
// name. It returns "" if there is such a map, or the key names none.
func UnknownMap(s Source, key []byte) string {
	prefix, _, is := strings.Cut(string(key), ":")
	if !is || s.Far != nil {
		return ""
	}
	nearest, least := "", 1+len(prefix)/3
	for name := range s.Maps() {
		text := strings.TrimSuffix(string(copal.MapPrefix(name)), ":")
		if text == prefix {
			return ""
		}
		if n := distance(prefix, text, least); n <= least && (nearest == "" || n < least) {
			nearest, least = text, n
		}
	}
	if HaveKeys(s, []byte(prefix+":")) {
		return ""
	}
	text := "there is no map " + ShowKey([]byte(prefix))
	if nearest != "" {
		text += "; the nearest name is " + ShowKey([]byte(nearest))
	}
	return text
}

// distance returns the number of bytes to insert, remove, replace, or swap with their neighbours,
// to turn one string into the other. Above most it may be any number above most.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	var rows [3][]int // the last but one, the last, and the row that is made
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[2] {
		rows[2][j] = j
	}
	for i := range len(a) {
		rows[0], rows[1], rows[2] = rows[1], rows[2], rows[0]
		rows[2][0] = i + 1
		for j := range len(b) {
			same := 1
			if a[i] == b[j] {
				same = 0
			}
			n := min(rows[1][j+1]+1, rows[2][j]+1, rows[1][j]+same)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, rows[0][j-1]+1)
			}
			rows[2][j+1] = n
		}
	}
	return rows[2][len(b)]
}

// IsGone reports whether err means that an entry has gone since its key was found.
func IsGone(err error) bool { return errors.Is(err, copal.ErrNotFound) }

// Named adds the key to ErrNotFound.
func Named(err error, key []byte) error {
	if IsGone(err) {
		return NotFound{Key: ShowKey(key)}
	}
	return err
}

// HaveKeys reports whether a key begins with prefix: entries that set or import has written are
// those of a map that no program has opened yet.
func HaveKeys(s Source, prefix []byte) bool {
	if s.Far != nil {
		for range s.Far.Entries(prefix, Behind(prefix)) {
			return true
		}
		return false
	}
	for _, err := range s.keys(admin.Selection{Prefix: prefix}) {
		if err == nil {
			return true
		}
	}
	return false
}
