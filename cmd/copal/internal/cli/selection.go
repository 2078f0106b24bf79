package cli

import (
	"bytes"
	"errors"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/glob"
)

// Selection selects entries of a store for a command. A nil field means no bound.
type Selection struct {
	Prefix   []byte
	From, To []byte // half-open: from is in it, and to is not
	Pattern  []byte
	reverse  bool
	Limit    int64 // negative for none
}

// SelectionFlags is a selection on the command line.
type SelectionFlags struct {
	Quoted   bool
	match    string
	from, to string
	Reverse  bool
	Limit    int64
}

// MatchHelp is the part of the help about patterns.
const MatchHelp = `In a pattern * stands for any bytes, ? for one, [a-z] for one of those, [^a-z] for one of
the others, and \ takes the meaning from what follows it.`

// AddQuoted gives a command --quoted.
func (f *SelectionFlags) AddQuoted(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVarP(&f.Quoted, "quoted", "Q", false, "read "+what+" as ls shows a key: a Go string literal if it begins with \"")
}

// AddMatch gives a command --match.
func (f *SelectionFlags) AddMatch(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.match, "match", "m", "", "only keys that this `pattern` stands for, such as 'users:*'")
}

// AddLimit gives a command --limit, in units of noun.
func (f *SelectionFlags) AddLimit(cmd *cobra.Command, noun string) {
	cmd.Flags().Int64VarP(&f.Limit, "limit", "n", 0, "print at most this many "+noun)
}

// AddRange gives a command --from, --to and --reverse.
func (f *SelectionFlags) AddRange(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "from", "", "only keys from this `KEY` on")
	cmd.Flags().StringVar(&f.to, "to", "", "only keys before this `KEY`")
	cmd.Flags().BoolVarP(&f.Reverse, "reverse", "r", false, "go backward, from the last key")
}

// Parse returns the selection of the command line. args is a prefix or nothing.
func (f *SelectionFlags) Parse(cmd *cobra.Command, args []string) (s Selection, err error) {
	s.reverse, s.Limit = f.Reverse, -1
	if cmd.Flags().Changed("limit") {
		if s.Limit = f.Limit; s.Limit < 0 {
			return s, UsageError("--limit: the number of entries cannot be negative")
		}
	}
	if cmd.Flags().Changed("match") {
		s.Pattern = []byte(f.match)
	}
	if len(args) > 0 {
		if s.Prefix, err = ParseKey(args[0], f.Quoted); err != nil {
			return s, err
		}
	}
	if cmd.Flags().Changed("from") {
		if s.From, err = ParseKey(f.from, f.Quoted); err != nil {
			return s, err
		}
	}
	if cmd.Flags().Changed("to") {
		s.To, err = ParseKey(f.to, f.Quoted)
	}
	return s, err
}

// keys returns the selection of keys, which the pattern narrows. ok is false if it is empty.
func (s Selection) keys() (sel admin.Selection, ok bool) {
	sel = admin.Selection{Prefix: s.Watched(), From: s.From, To: s.To, Backward: s.reverse}
	shorter := s.Prefix
	if literal := glob.Literal(s.Pattern); len(literal) < len(s.Prefix) {
		shorter = literal
	}
	return sel, s.Limit != 0 && bytes.HasPrefix(sel.Prefix, shorter)
}

// Everything reports whether all entries are selected.
func (s Selection) Everything() bool {
	return len(s.Prefix) == 0 && s.From == nil && s.To == nil && s.Pattern == nil && s.Limit < 0
}

// Keys yields the selected keys in order. It ends when a.Ctx does, and the caller looks whether it
// did.
func (a *App) Keys(from Source, s Selection) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		n := int64(0)
		for key := range a.candidates(from, s) {
			if n++; !yield(key) || n == s.Limit {
				return
			}
		}
	}
}

// candidates yields the selected keys without regard to the limit, except that a limit of 0 yields
// none.
func (a *App) candidates(from Source, s Selection) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		sel, ok := s.keys()
		if !ok {
			return
		}
		for key, err := range from.keys(sel) {
			if err != nil {
				a.Report(err)
				continue
			}
			if a.Ctx.Err() != nil {
				return
			}
			if s.Pattern != nil && !glob.Match(s.Pattern, key) {
				continue
			}
			if !yield(key) {
				return
			}
		}
	}
}

// Entries yields the selected entries as Keys does. An error of reading one is reported, and the
// others go on.
func (a *App) Entries(from Source, s Selection) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		n := int64(0)
		for key, value := range a.ValuesOf(from, a.candidates(from, s)) {
			if n++; !yield(key, value) || n == s.Limit || a.Ctx.Err() != nil {
				return
			}
		}
	}
}

// ValuesOf yields keys with their values. An error of reading one is reported, and the others
// follow.
func (a *App) ValuesOf(from Source, keys iter.Seq[[]byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key := range keys {
			value, err := from.Raw().Load(key)
			switch {
			case errors.Is(err, copal.ErrNotFound): // it has gone meanwhile
			case err != nil:
				a.Report(err)
			case !yield(key, value):
				return
			}
		}
	}
}

// Watched returns the longest prefix of all selected keys that prefix and pattern give.
func (s Selection) Watched() []byte {
	if start := glob.Literal(s.Pattern); len(start) > len(s.Prefix) {
		return start
	}
	return s.Prefix
}

// Has reports whether key is selected by prefix and pattern.
func (s Selection) Has(key []byte) bool {
	return strings.HasPrefix(string(key), string(s.Prefix)) && (s.Pattern == nil || glob.Match(s.Pattern, key))
}
