package cli

import (
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// Completion of a command line asks the store. It must never block the user or print anything: on
// any error it offers nothing.

const (
	completeMost = 200                    // candidates
	completeFor  = 400 * time.Millisecond // then nothing is offered
)

type completion func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// CompleteKey completes the first argument as a directory, and up to keys arguments after it as
// keys of the store there. AnyNumber means no limit.
func (a *App) CompleteKey(keys int) completion {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return nil, cobra.ShellCompDirectiveFilterDirs
		case keys != AnyNumber && len(args) > keys || RequireStore(args[0]) != nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, directive := inTime(func() []string {
			var list []string
			a.lend(args[0], func(db *copal.DB) error {
				list = a.offered(db, word)
				return nil
			})
			return list
		}), cobra.ShellCompDirectiveNoFileComp
		if len(list) == 1 && strings.HasSuffix(list[0], ":") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return list, directive
	}
}

// lend does the work of View without printing errors.
func (a *App) lend(dir string, f func(db *copal.DB) error) error {
	if a.Host != nil {
		return a.Host.View(f)
	}
	db, err := a.Open(dir, copal.ReadOnly(), copal.WithErrorHandler(func(error) {}))
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

// inTime returns the result of f, or nil after completeFor. f then goes on until the process ends.
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

// offered returns the keys that begin with word. A map whose name is not complete yet is offered as
// its name and a colon, in place of its keys. In copal's own shell each key is written as a word of
// it; elsewhere keys that isWord refuses are left out.
func (a *App) offered(db *copal.DB, word string) (list []string) {
	maps := map[string]bool{}
	for name := range (Source{DB: db}).Maps() {
		prefix := string(copal.MapPrefix(name))
		if len(prefix) > len(word) && strings.HasPrefix(prefix, word) && (a.Host != nil && isPlain(prefix) || isWord(prefix)) {
			maps[prefix] = true
			list = append(list, prefix)
		}
	}
	from := []byte(nil)
	for more := true; more && len(list) < completeMost; more = from != nil {
		list, from = a.appendKeys(list, db, from, word, maps)
	}
	return list
}

// appendKeys appends the keys from from on, up to the first that is in one of the maps. next is the
// first key after that map, nil at the end.
func (a *App) appendKeys(list []string, db *copal.DB, from []byte, word string, maps map[string]bool) (_ []string, next []byte) {
	for b, err := range admin.Keys(db, admin.Selection{Prefix: []byte(word), From: from}) {
		if err != nil {
			continue
		}
		key := string(b)
		if name, _, ok := strings.Cut(key, ":"); ok && maps[name+":"] {
			return list, Behind([]byte(name + ":"))
		}
		switch {
		case a.Host != nil:
			key = quoteWord(key)
		case !isWord(key):
			continue
		}
		if list = append(list, key); len(list) >= completeMost {
			break
		}
	}
	return list, nil
}

// isWord reports whether a key and each beginning of it are one word in bash, zsh, fish and
// PowerShell. Bash puts the common beginning of candidates on the line without quotes, and
// evaluates the line at the next completion: a key such as $(reboot) would run. A key that begins
// with a dash would be a flag.
func isWord(key string) bool {
	return key != "" && !strings.ContainsAny(key[:1], "-=") && utf8.ValidString(key) && !strings.ContainsFunc(key, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:%+=", r)
	})
}

// FlagNames returns the flags of a command.
func FlagNames(cmd *cobra.Command) (list []string) {
	cmd.InitDefaultHelpFlag()
	cmd.Flags().VisitAll(func(f *pflag.Flag) { list = append(list, "--"+f.Name) })
	return list
}
