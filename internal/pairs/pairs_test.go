package pairs

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
)

// walkOf yields the words of text. A word with a question mark comes with an error.
func walkOf(text string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for word := range strings.FieldsSeq(text) {
			var err error
			if name, failed := strings.CutSuffix(word, "?"); failed {
				word, err = name, errors.New(name+" cannot be read")
			}
			if !yield(word, err) {
				return
			}
		}
	}
}

func TestOf(t *testing.T) {
	tests := []struct{ a, b, want string }{
		{"", "", ""},
		{"a b", "", "a- b-"},
		{"", "a b", "-a -b"},
		{"a c d", "b c e", "a- -b cc d- -e"},
		{"a b? c", "b c", "a- bb! cc"},
		{"a b c?", "b? d", "a- bb! c-! -d"},
		{"a b last? d", "b c", "a- bb -c last-!"},
	}
	ends := func(err error) bool { return strings.HasPrefix(err.Error(), "last") }
	for _, test := range tests {
		var found []string
		for both, err := range Of(walkOf(test.a), walkOf(test.b), func(s *string) []byte { return []byte(*s) }, ends) {
			text := ""
			for _, side := range []*string{both.A, both.B} {
				if side == nil {
					text += "-"
				} else {
					text += *side
				}
			}
			if err != nil {
				text += "!"
			}
			found = append(found, text)
		}
		if want := strings.Fields(test.want); !slices.Equal(found, want) {
			t.Errorf("pairs of %q and %q: %q, want %q", test.a, test.b, found, want)
		}
	}
}

// An early end stops both walks.
func TestOfEndsEarly(t *testing.T) {
	stopped := 0
	endless := func(yield func(string, error) bool) {
		defer func() { stopped++ }()
		for yield("a", nil) {
		}
	}
	for range Of(endless, endless, func(s *string) []byte { return []byte(*s) }, nil) {
		break
	}
	if stopped != 2 {
		t.Errorf("%d of 2 walks were stopped", stopped)
	}
}
