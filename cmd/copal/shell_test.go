package main

import (
	"errors"
	"io"
	"testing"

	"github.com/copaldb/copal"
)

// A script keeps the lock from its first write on; who types gives it back after each command. Both read what
// they, and others, have written.
func TestShellHoldsTheLock(t *testing.T) {
	for name, typed := range map[string]bool{"script": false, "typed": true} {
		t.Run(name, func(t *testing.T) {
			dir := storeOf(t, 3)
			a := newApp(nil, io.Discard, io.Discard)
			reads, err := a.openStore(dir, copal.ReadOnly())
			if err != nil {
				t.Fatal(err)
			}
			s := &shell{app: a, dir: dir, reads: reads}
			if typed {
				s.editor = &editor{}
			}
			locked := func() bool {
				db, err := copal.Open(dir)
				if err == nil {
					db.Close()
				}
				return errors.Is(err, copal.ErrLocked)
			}
			for _, step := range []struct {
				words  []string
				locked bool
			}{
				{[]string{"get", "key-000001"}, false},
				{[]string{"set", "a", "1"}, !typed},
				{[]string{"get", "a"}, !typed},
				{[]string{"incr", "a"}, !typed},
				{[]string{"has", "a"}, !typed},
			} {
				if code := s.run(t.Context(), step.words); code != exitOK {
					t.Errorf("%q: exit code %d", step.words, code)
				}
				if got := locked(); got != step.locked {
					t.Errorf("after %q: locked %t", step.words, got)
				}
			}
			if err := s.close(); err != nil || locked() {
				t.Errorf("closed: %v", err)
			}
		})
	}
}
