package main

import (
	"bytes"
	"errors"
	"iter"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/glob"
)

// selection says which entries of a store a command is about. In each field nil stands for
// no bound.
type selection struct {
	prefix   []byte
	from, to []byte // half-open: from is in it, and to is not
	pattern  []byte
	reverse  bool
	limit    int64 // negative for none
}

// selectionFlags are a selection as it stands on the command line.
type selectionFlags struct {
	quoted   bool
	match    string
	from, to string
	reverse  bool
	limit    int64
}

const matchHelp = `In a pattern * stands for any bytes, ? for one, [a-z] for one of those, [^a-z] for one of
the others, and \ takes the meaning from what follows it.`

func (f *selectionFlags) addQuoted(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVarP(&f.quoted, "quoted", "Q", false, "read "+what+" as ls shows a key: a Go string literal if it begins with \"")
}

func (f *selectionFlags) addMatch(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.match, "match", "m", "", "only keys that this `pattern` stands for, such as 'users:*'")
}

func (f *selectionFlags) addLimit(cmd *cobra.Command, noun string) {
	cmd.Flags().Int64VarP(&f.limit, "limit", "n", 0, "print at most this many "+noun)
}

func (f *selectionFlags) addRange(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "from", "", "only keys from this `KEY` on")
	cmd.Flags().StringVar(&f.to, "to", "", "only keys before this `KEY`")
	cmd.Flags().BoolVarP(&f.reverse, "reverse", "r", false, "go backward, from the last key")
}

// parse makes a selection of what the command line says, of which args is a prefix or nothing.
func (f *selectionFlags) parse(cmd *cobra.Command, args []string) (s selection, err error) {
	s.reverse, s.limit = f.reverse, -1
	if cmd.Flags().Changed("limit") {
		if s.limit = f.limit; s.limit < 0 {
			return s, usageError{"--limit: the number of entries cannot be negative"}
		}
	}
	if cmd.Flags().Changed("match") {
		s.pattern = []byte(f.match)
	}
	if len(args) > 0 {
		if s.prefix, err = parseKey(args[0], f.quoted); err != nil {
			return s, err
		}
	}
	if cmd.Flags().Changed("from") {
		if s.from, err = parseKey(f.from, f.quoted); err != nil {
			return s, err
		}
	}
	if cmd.Flags().Changed("to") {
		s.to, err = parseKey(f.to, f.quoted)
	}
	return s, err
}

// bounds is the range of keys outside of which there are none of the selection. An empty one
// has low not before high.
func (s selection) bounds() (low, high []byte) {
	low, high = s.from, s.to
	for _, prefix := range [][]byte{s.prefix, glob.Literal(s.pattern)} {
		if bytes.Compare(prefix, low) > 0 {
			low = prefix
		}
		if end := behind(prefix); end != nil && (high == nil || bytes.Compare(end, high) < 0) {
			high = end
		}
	}
	return low, high
}

// behind is the first key behind all that begin with prefix, nil if there is none.
func behind(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return append(bytes.Clone(prefix[:i]), prefix[i]+1)
		}
	}
	return nil
}

// everything reports whether all entries are selected.
func (s selection) everything() bool {
	return len(s.prefix) == 0 && s.from == nil && s.to == nil && s.pattern == nil && s.limit < 0
}

func (s selection) empty(low, high []byte) bool {
	return s.limit == 0 || high != nil && bytes.Compare(low, high) >= 0
}

// keys yields the selected keys in order. It ends when a.ctx does, and the caller looks whether it did.
func (a *app) keys(from source, s selection) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		n := int64(0)
		for key := range a.candidates(from, s) {
			if n++; !yield(key) || n == s.limit {
				return
			}
		}
	}
}

// candidates yields the selected keys whatever the limit is, but none for a limit of 0.
func (a *app) candidates(from source, s selection) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		low, high := s.bounds()
		if s.empty(low, high) {
			return
		}
		for key, err := range from.keys(low, high, s.reverse) {
			if err != nil {
				a.report(err)
				continue
			}
			if a.ctx.Err() != nil {
				return
			}
			if s.pattern != nil && !glob.Match(s.pattern, key) {
				continue
			}
			if !yield(key) {
				return
			}
		}
	}
}

// entries yields the selected entries as keys does. An error of reading one is reported, and the others go on.
func (a *app) entries(from source, s selection) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		n := int64(0)
		for key, value := range a.candidateEntries(from, s) {
			if n++; !yield(key, value) || n == s.limit || a.ctx.Err() != nil {
				return
			}
		}
	}
}

func (a *app) candidateEntries(from source, s selection) iter.Seq2[[]byte, []byte] {
	low, high := s.bounds()
	switch {
	case s.pattern != nil || s.empty(low, high) || a.served:
		return a.valuesOf(from, a.candidates(from, s)) // no value is read of what is not selected
	case s.reverse:
		return from.raw().Backward().Between(low, high)
	}
	return from.raw().Between(low, high)
}

func (a *app) valuesOf(from source, keys iter.Seq[[]byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key := range keys {
			value, err := from.raw().Load(key)
			switch {
			case errors.Is(err, copal.ErrNotFound): // it has gone meanwhile
			case err != nil:
				a.report(err)
			case !yield(key, value):
				return
			}
		}
	}
}
