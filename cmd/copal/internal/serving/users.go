package serving

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"

	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/cmd/copal/internal/tlsfiles"
)

// users are the users of the file of --users, which SIGHUP reloads, and those that the server has
// made.
type users struct {
	*access.Users
	file string
	made []access.User
}

// users returns the users that the flags name, nil for none: then everybody is let in. The second
// result is a token of the server of --admin, which passes requests on to HTTP.
func (s *Settings) users() (*users, string, error) {
	word, err := password(s.passwordFile)
	if err != nil || word == "" && s.usersFile == "" {
		return nil, "", err
	}
	token := access.NewToken()
	admin := access.Password(token)
	admin.Name = "copal.admin"
	u := &users{Users: new(access.Users), file: s.usersFile, made: []access.User{admin}}
	if word != "" {
		u.made = append(u.made, access.Password(word))
	}
	return u, token, u.read()
}

// Rights are the lines of a user in the file.
type Rights struct {
	Tokens []string `toml:"tokens" json:"tokens"`
	Read   []string `toml:"read,omitempty" json:"read,omitempty"`
	Write  []string `toml:"write,omitempty" json:"write,omitempty"`
}

// read reads the file. On an error the users of before stay.
func (u *users) read() error {
	list := slices.Clone(u.made)
	if u.file != "" {
		var lines map[string]Rights
		known, err := toml.DecodeFile(u.file, &lines)
		if err != nil {
			return fmt.Errorf("%s: %w", u.file, err)
		}
		if len(lines) == 0 {
			return fmt.Errorf("%s: there are no users", u.file)
		}
		if more := known.Undecoded(); len(more) > 0 {
			return fmt.Errorf("%s: there is no setting %q of a user; there are tokens, read and write", u.file, more[0].String())
		}
		for _, name := range slices.Sorted(maps.Keys(lines)) {
			of := lines[name]
			list = append(list, access.User{Name: name, Tokens: of.Tokens, Read: of.Read, Write: of.Write})
		}
	}
	if err := u.Set(list...); err != nil {
		return fmt.Errorf("%s: %s", u.file, PlainAccess(err))
	}
	return nil
}

// PlainAccess returns the text of an error of access without the name of the package.
func PlainAccess(err error) string { return strings.TrimPrefix(err.Error(), "access: ") }

// readAgain reloads the files of the users and of the certificate at each SIGHUP, until the
// returned function is called.
func readAgain(u *users, c *tlsfiles.Files, logger *slog.Logger) (stop func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	again := func(what, file string, read func() error) {
		if err := read(); err != nil {
			logger.Error("a file cannot be read, and what was read before stays", "what", what, "error", err)
			return
		}
		logger.Info("a file was read anew", "what", what, "file", file)
	}
	go func() {
		for range asked {
			if c == nil && (u == nil || u.file == "") {
				logger.Info("there is no file to read anew")
			}
			if u != nil && u.file != "" {
				again("users", u.file, u.read)
			}
			if c != nil {
				again("certificate", c.Cert, c.Read)
			}
		}
	}()
	return func() {
		signal.Stop(asked)
		close(asked)
	}
}
