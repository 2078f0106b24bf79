package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
)

// Completion of a command line asks the store. It must never keep the user waiting, nor say anything: whatever
// goes wrong, nothing is offered.

const (
	completeMost = 200                    // candidates
	completeFor  = 400 * time.Millisecond // after which what there is has to do
)

type completion func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// completeKey completes the first argument as a directory, and as many behind it as said, or
// any number, as keys of the store there.
func (a *app) completeKey(keys int) completion {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return nil, cobra.ShellCompDirectiveFilterDirs
		case keys != anyNumber && len(args) > keys || requireStore(args[0]) != nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, directive := inTime(func() []string {
			var list []string
			db, err := copal.Open(args[0], copal.ReadOnly(), copal.WithErrorHandler(func(error) {}))
			if err == nil {
				list = candidates(db, word)
				db.Close()
			}
			return list
		}), cobra.ShellCompDirectiveNoFileComp
		if len(list) == 1 && strings.HasSuffix(list[0], ":") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return list, directive
	}
}

// inTime is what f returns, or nothing if that takes too long. f then goes on until the process ends.
func inTime(f func() []string) []string {
	done := make(chan []string, 1)
	go func() { done <- f() }()
	select {
	case list := <-done:
		return list
	case <-time.After(completeFor):
		return nil
	}
}

// candidates are the keys that begin with word, and instead of those of a map whose name is not complete yet that name
// and a colon. Keys that cannot be typed are left out.
func candidates(db *copal.DB, word string) (list []string) {
	maps := map[string]bool{}
	for _, m := range db.Maps() {
		if name := m.Prefix; len(name) > len(word) && strings.HasPrefix(name, word) && isPlain(name) {
			maps[name] = true
			list = append(list, name)
		}
	}
	for from := []byte(word); from != nil && len(list) < completeMost; {
		list, from = appendKeys(list, db, from, word, maps)
	}
	return list
}

// appendKeys appends the keys from from on, up to the first that is in one of the maps. What comes behind that
// map is next; nil is for nothing.
func appendKeys(list []string, db *copal.DB, from []byte, word string, maps map[string]bool) (_ []string, next []byte) {
	for b := range db.ScanRangeKeys(from, behind([]byte(word))) {
		key := string(b)
		if name, _, ok := strings.Cut(key, ":"); ok && maps[name+":"] {
			return list, behind([]byte(name + ":"))
		}
		if !isPlain(key) {
			continue
		}
		if list = append(list, key); len(list) >= completeMost {
			break
		}
	}
	return list, nil
}
