package remote

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/redisserver"
)

// TestRightsOfThePage: the user of the page about rights may do all that a Redis can, with its own keys alone.
func TestRightsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?s)ACL SETUSER app .*?\n\n`).Find(page)
	words := strings.Fields(strings.ReplaceAll(string(line), "\\\n", " "))
	if len(words) < 4 {
		t.Fatalf("the page has no such line: %q", words)
	}
	_, address := redisserver.Start(t)
	server := redisserver.Process{Address: address}
	if _, err := server.Do(words...); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "?cache=1000000"} {
		db, err := Open(t.Context(), "redis://app:secret@"+address+query, copal.WithErrorHandler(onError(t)))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		m, err := copal.OpenMap[string, int](db, "users")
		if err != nil {
			t.Fatal(err)
		}
		h, set := db.Raw().Hash([]byte("users:h")), db.Raw().SortedSet([]byte("users:z"))
		for verb, do := range map[string]func() error{
			"Set":     func() error { return m.Set("a", 1) },
			"SetTTL":  func() error { return m.SetTTL("b", 1, time.Hour) },
			"SetTill": func() error { return m.SetUntil("c", 1, time.Now().Add(time.Hour)) },
			"Update": func() error {
				_, _, err := m.Update("d", func(e *copal.Entry[int]) error { e.Value++; return nil })
				return err
			},
			"Updates": func() error {
				for range 2 {
					if _, _, err := m.Update("e", func(e *copal.Entry[int]) error { e.Value++; e.TTL = time.Hour; return nil }); err != nil {
						return err
					}
				}
				_, err := m.TTL("e")
				return err
			},
			"GetAndDelete": func() error {
				_, _, err := m.GetAndDelete("f")
				return err
			},
			"Batch": func() error {
				b := db.Raw().Batch()
				b.Set([]byte("users:g"), []byte("1"))
				return b.Commit()
			},
			"Hash":      func() error { return errors.Join(h.Set("a", nil), h.Expire(time.Hour)) },
			"SortedSet": func() error { return set.Set("a", 1) },
		} {
			if err := do(); err != nil {
				t.Errorf("%s: %v", verb, err)
			}
		}
		if n := m.Len(); n == 0 {
			t.Error("there are no entries")
		}
		for range m.All() {
		}
		for range h.All() {
		}
		if err := m.Clear(); err != nil {
			t.Errorf("Clear: %v", err)
		}
		others, err := copal.OpenMap[string, int](db, "others")
		if err != nil {
			t.Fatal(err)
		}
		if err := others.Set("a", 1); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("another map: %v", err)
		}
	}
}
