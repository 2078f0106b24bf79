package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ReadValue returns arg or, for "-", all of standard input.
func (a *App) ReadValue(arg string) ([]byte, error) {
	if arg != "-" {
		return []byte(arg), nil
	}
	if a.Stdin == nil {
		return nil, UsageError("there is no standard input here: give the value itself")
	}
	const most = 1<<30 + 1 // one byte over the longest value, which the store refuses then
	value, err := io.ReadAll(io.LimitReader(a.Input(), most))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return value, nil
}

// ShowValue returns value for a person: on one line, and different for different values. JSON and
// other visible text is unchanged. An empty or partly invisible value is a Go string literal after
// a b.
func ShowValue(value []byte) string {
	s := string(value)
	if s == "" || strings.HasPrefix(s, `b"`) || !isVisible(s) {
		return "b" + strconv.Quote(s)
	}
	return s
}
