package redisapi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/copaldb/copal/internal/redisserver"
	"github.com/copaldb/copal/redisapi/internal/commandtest"
)

// TestScripts carries out the requests of testdata/*.txt, and compares the replies.
//
// A line that begins with > is a request, and the next line is its reply as peer.read shows it. 3>
// is a request in RESP3. A line that begins with ! is a request whose reply differs from that of
// redis-server 7.0. A line that begins with / or 3/ is a request without a reply. If a request is
// empty, the next line is a reply to an earlier request. With COPAL_WRITE=1 the test writes the
// replies.
func TestScripts(t *testing.T) {
	for _, name := range scripts(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			_, address := newServer(t)
			runScript(t, name, address, os.Getenv("COPAL_WRITE") == "1", false)
		})
	}
}

// TestScriptsAreOfRedis does the same to redis-server, where that is installed.
// With COPAL_WRITE=1 it writes its replies.
func TestScriptsAreOfRedis(t *testing.T) {
	address := redisServer(t)
	for _, name := range scripts(t) {
		t.Run(filepath.Base(name), func(t *testing.T) { runScript(t, name, address, os.Getenv("COPAL_WRITE") == "1", true) })
	}
}

// redisServer starts a redis-server until the test ends, and skips the test if redis-server is not
// installed.
func redisServer(t *testing.T) (address string) {
	_, address = redisserver.Start(t, "--enable-debug-command", "yes")
	return address
}

func scripts(t *testing.T) []string {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal("no scripts", err)
	}
	return names
}

// runScript carries out a script by two clients of a server.
func runScript(t *testing.T, name, address string, update, redis bool) {
	p, p3 := dial(t, address), dial(t, address)
	p.do("FLUSHALL")
	p3.do("HELLO 3")
	by := func(v3 bool) *peer {
		if v3 {
			return p3
		}
		return p
	}
	s := commandtest.Script{
		Do:     func(v3 bool, request string) (string, bool) { return by(v3).do(request), true },
		Send:   func(v3 bool, request string) { by(v3).send(request) },
		Update: update, Redis: redis,
	}
	s.Run(t, name)
}
