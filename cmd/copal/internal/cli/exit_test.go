package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/copaldb/copal"
)

func TestExitCodeOfEveryError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("any"), ExitError},
		{copal.ErrVersion, ExitError},
		{UsageError("any"), ExitUsage},
		{copal.ErrNotFound, ExitNotFound},
		{copal.ErrLocked, ExitLocked},
		{copal.ErrCorrupt, ExitCorrupt},
		{&copal.CorruptError{}, ExitCorrupt},
	} {
		if got := exitCode(fmt.Errorf("wrapped: %w", c.err)); c.err != nil && got != c.want {
			t.Errorf("%v wrapped: %d, want %d", c.err, got, c.want)
		}
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// A second Open of a store fails with an error that has an exit code of its own.
func TestLockedStoreHasItsExitCode(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = copal.Open(dir)
	if got := exitCode(err); got != ExitLocked {
		t.Errorf("%v: %d, want %d", err, got, ExitLocked)
	}
}

func TestMessageHasOnePrefix(t *testing.T) {
	err := errors.Join(errors.New("copal: one"), errors.New("copal: two"))
	if got := Message(err); got != "one; two" {
		t.Errorf("%q", got)
	}
	if got := Message(fmt.Errorf("key a: %w", errors.New("copal: one"))); got != "key a: one" {
		t.Errorf("%q", got)
	}
}
