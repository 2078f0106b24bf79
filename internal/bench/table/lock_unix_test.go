//go:build unix

package table

import (
	"context"
	"strings"
	"testing"
)

// The second waits, and says so, until the first is done, or until it is not wanted any more.
func TestLockIsExclusive(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	unlock, err := lock(t.Context(), func(text string) { t.Errorf("the first says %q", text) })
	if err != nil {
		t.Fatal(err)
	}
	said, second := make(chan string, 1), make(chan error)
	go func() {
		unlock, err := lock(t.Context(), func(text string) { said <- text })
		if err == nil {
			err = unlock()
		}
		second <- err
	}()
	if text := <-said; !strings.Contains(text, "waiting") {
		t.Errorf("the second says %q", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, func(string) { cancel() }); err != context.Canceled {
		t.Errorf("the third returns %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}
