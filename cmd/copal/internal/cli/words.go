package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// A line of the shell is divided into words by spaces. A word that begins with a double quote is a
// Go string literal, as ls shows an invisible key. A word that begins with a single quote goes to
// the next single quote, without escapes. Within a word no character has a meaning, so that {"a":1}
// and C:\store need no quotes.

// SplitWords divides a line. A line that begins with # has no words.
func SplitWords(line string) (words []string, err error) {
	rest := strings.TrimSpace(line)
	if strings.HasPrefix(rest, "#") {
		return nil, nil
	}
	for rest != "" {
		var word string
		if word, rest, err = nextWord(rest); err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

// nextWord takes the first word off a line that has one and does not begin with a space.
func nextWord(line string) (word, rest string, err error) {
	switch line[0] {
	case '"':
		literal, err := strconv.QuotedPrefix(line)
		if err != nil {
			return "", "", fmt.Errorf(`a word that begins with " is no Go string literal; put '…' around one that is to be taken as it is`)
		}
		word, _ = strconv.Unquote(literal)
		rest = line[len(literal):]
	case '\'':
		end := strings.IndexByte(line[1:], '\'')
		if end < 0 {
			return "", "", fmt.Errorf("a word that begins with ' does not end with one")
		}
		word, rest = line[1:end+1], line[end+2:]
	default:
		end := strings.IndexFunc(line, unicode.IsSpace)
		if end < 0 {
			return line, "", nil
		}
		word, rest = line[:end], line[end:]
	}
	after := strings.TrimLeftFunc(rest, unicode.IsSpace)
	if after != "" && len(after) == len(rest) {
		return "", "", fmt.Errorf("between a quoted word and the next there must be a space")
	}
	return word, after, nil
}

// quoteWord returns word as written on a line, quoted if it needs quotes.
func quoteWord(word string) string {
	if isPlain(word) && word[0] != '\'' && word[0] != '#' && !strings.ContainsFunc(word, unicode.IsSpace) {
		return word
	}
	return strconv.Quote(word)
}
