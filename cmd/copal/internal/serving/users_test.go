//go:build unix

package serving

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/access"
)

// A file that cannot be read changes nothing.
func TestUsersFileIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.toml")
	s := Settings{usersFile: file}
	if _, _, err := s.users(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[a]\ntokens = [\"" + access.Hash("a") + "\"]\n")
	u, token, err := s.users()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"[a]\nrights = 1\n":            `there is no setting "a.rights" of a user`,
		"[a]\n":                        "a has no token",
		"":                             "there are no users",
		"[a\n":                         "expected",
		"[a]\ntokens = [\"secret\"]\n": "a token is kept as sha256:",
	} {
		if write(text); u.read() == nil || !strings.Contains(u.read().Error(), want) {
			t.Errorf("%q: %v", text, u.read())
		}
	}
	if u.Find("a", "a") == nil || u.Find("", token) == nil {
		t.Error("what was read before has gone")
	}
}
