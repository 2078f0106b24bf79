package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/socket"
	"github.com/copaldb/copal/internal/files"
)

// ServersHelp is the part of the help about stores on servers.
const ServersHelp = `The store may be on a server, too: a copal serve, a Redis, a Valkey or a cluster of them.
Then redis://host:port replaces the directory, with user:password@ before the host, and
further nodes of a cluster after commas; rediss:// is by TLS, and unix:///path/of.sock is
a socket. get, set, del, has, incr, ttl, ls, scan, range, count, diff, watch, export,
import, copy, stat, schema, sync and shell take servers; the others are about files or the
past, and name the command that does their work there. Writes to a store that your copal
serve has open go through that server, and the command says so.`

// IsServer reports whether the place of a store is the URL of a server, and not a directory.
func IsServer(place string) bool {
	scheme, _, ok := strings.Cut(place, "://")
	return ok && (scheme == "redis" || scheme == "rediss" || scheme == "unix")
}

// OnServers are the commands that work with stores on servers. They write to a directory through
// its server, too.
var OnServers = []string{"get", "set", "del", "has", "incr", "ttl", "ls", "scan", "range", "count", "watch", "copy", "export", "import", "diff", "stat", "schema", "sync", "shell"}

// Instead has, for each command that needs a directory, the way to do its work on a server.
var Instead = map[string]string{
	"log":     "a server tells no past; copal watch tells what changes from now on, and from a copal serve what its log still has",
	"history": "how long the past is kept is said where the server runs, by copal serve --history",
	"undo":    "a server tells no past; undo takes changes back in the directory, when no server has it",
	"check":   "it judges the files, in the directory, beside the server; copal copy --cutover proves that two stores are equal",
	"repair":  "it reads damaged files, in the directory, when no server has it",
	"compact": "a copal serve compacts by itself, and a server does at once at the command BGREWRITEAOF",
	"backup":  "copal copy SERVER DIR makes a store of what a server has",
	"restore": "copal copy DIR SERVER brings what a store has to a server",
	"health":  "it asks a copal serve at its --http or --admin; copal stat says whether a server answers",
	"serve":   "it has the files open; a client reaches the server itself",
}

// needsDirectory refuses a server for a command that needs a directory.
func (a *App) needsDirectory(cmd *cobra.Command, args []string) error {
	a.onServers = slices.Contains(OnServers, cmd.Name())
	if a.onServers {
		return nil
	}
	n := 1
	switch cmd.Name() {
	case "backup", "restore":
		n = 2
	}
	for _, arg := range args[:min(n, len(args))] {
		if !IsServer(arg) {
			continue
		}
		needs := "a directory"
		if cmd.Name() == "health" {
			needs = "an address of HTTP"
		}
		reason := fmt.Sprintf("%s needs %s, and %s is a server", cmd.Name(), needs, Redacted(arg))
		if what := Instead[cmd.Name()]; what != "" {
			reason += "; " + what
		}
		return UsageError(reason)
	}
	return nil
}

// Redacted returns a server without its password.
func Redacted(server string) string {
	scheme, rest, _ := strings.Cut(server, "://")
	i := strings.LastIndexByte(rest, '@') // the last one, for a password may have any character, although it should not
	if i < 0 {
		return server
	}
	user, _, password := strings.Cut(rest[:i], ":")
	if password {
		user += ":***"
	}
	return scheme + "://" + user + rest[i:]
}

// Reach opens a store on a server, lends it to f and closes it.
func (a *App) Reach(server string, f func(db *copal.DB) error) error {
	db, err := a.OpenServer(server)
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

// OpenServer opens a store on a server.
func (a *App) OpenServer(server string) (*copal.DB, error) {
	a.Served = true
	return openRemote(a.Ctx, server, copal.WithErrorHandler(a.Report))
}

// openServed opens a store by the server that has its lock. Where that cannot be reached, the error
// is locked, with which the store was refused.
func (a *App) openServed(dir string, locked error) (*copal.DB, error) {
	whole, err := files.Path(dir)
	path := SocketOf(whole)
	if err != nil || !a.onServers {
		return nil, locked
	}
	if info, err := os.Lstat(path); err != nil || !socket.Is(info) { // a link may lead to the socket of anything
		return nil, locked
	}
	db, err := a.OpenServer("unix://" + escaped.Replace(path))
	if err != nil {
		a.Served = false
		return nil, locked
	}
	a.Note(dir + " is open in a copal serve, and is changed by that, through " + SocketOf(dir))
	return db, nil
}

// FitsServed refuses a value that does not fit the typed map of its key, for a store in a directory
// that is written to through its server. The types are in the log, which can be read beside the
// server.
func (a *App) FitsServed(dir string, key, value []byte) error {
	if !a.Served || IsServer(dir) {
		return nil
	}
	db, err := a.OpenStore(dir, copal.ReadOnly())
	if err != nil {
		return err
	}
	return errors.Join(admin.Fit(db, &admin.Entry{Key: key, Value: value}), db.Close())
}

// escaped escapes a path for a URL.
var escaped = strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23")

// A server also listens at a socket in the directory of its store. A second process that wants to
// write finds the server by the directory alone. The socket is always of this server: only the
// process with the store's lock makes it, and removes one that a killed server has left.
//
// The socket is for processes of the same user, and of root. They could read the files, and end the
// server, so it asks them for no password, even if the other ports have users.
const socketName = "SOCKET"

// SocketOf returns the path of the socket of the server of a store.
func SocketOf(dir string) string { return Inside(dir, socketName) }
