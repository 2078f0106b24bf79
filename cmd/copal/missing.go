package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// What is not found may be mistyped: the key of a map in a spelling that none of its keys has, or the name of the map.

// missing names the key of an ErrNotFound, and says what may be mistyped. Any other error it returns as it is.
func (a *app) missing(s source, err error, key []byte) error {
	if !isGone(err) {
		return err
	}
	if wrong := admin.CheckKey(s.db, key); wrong != nil {
		return wrong
	}
	text := ""
	if isTerminal(a.stderr) {
		text = unknownMap(s, key)
	}
	return notFound{showKey(key), text}
}

// notFound is an ErrNotFound in the words of the command.
type notFound struct{ key, text string }

func (e notFound) Error() string {
	if e.text == "" {
		return fmt.Sprintf("%v: %s", copal.ErrNotFound, e.key)
	}
	return fmt.Sprintf("%v: %s: %s", copal.ErrNotFound, e.key, e.text)
}

func (e notFound) Unwrap() error { return copal.ErrNotFound }

// existsFlag is --exists.
type existsFlag bool

func (f *existsFlag) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar((*bool)(f), "exists", false, "fail with exit code 3 if there is no such map")
}

// check returns an error if the map that a prefix names is unknown, and on a terminal says so without the flag. Of a
// prefix without a colon it is not known whether it is the name of a map.
func (f existsFlag) check(a *app, s source, prefixes ...[]byte) error {
	if !bool(f) && !isTerminal(a.stderr) {
		return nil
	}
	for _, prefix := range prefixes {
		text := unknownMap(s, prefix)
		if text == "" {
			continue
		}
		if bool(f) {
			return notFound{showKey(prefix), text}
		}
		a.note(text)
	}
	return nil
}

// unknownMap says that the store has no map of the name that a key begins with, and which name is the nearest. It is
// empty where there is such a map, or the key names none.
func unknownMap(s source, key []byte) string {
	prefix, _, is := strings.Cut(string(key), ":")
	if !is || s.far != nil {
		return ""
	}
	nearest, least := "", 1+len(prefix)/3
	for name := range s.maps() {
		text := strings.TrimSuffix(string(copal.MapPrefix(name)), ":")
		if text == prefix {
			return ""
		}
		if n := distance(prefix, text, least); n <= least && (nearest == "" || n < least) {
			nearest, least = text, n
		}
	}
	if haveKeys(s, []byte(prefix+":")) {
		return ""
	}
	text := "there is no map " + showKey([]byte(prefix))
	if nearest != "" {
		text += "; the nearest name is " + showKey([]byte(nearest))
	}
	return text
}

// distance is how many bytes have to be put in, taken out, replaced, or exchanged with their neighbours to make one
// string of the other. It may be any number above most if it is above that.
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
