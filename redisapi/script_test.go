package redisapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/redisserver"
)

// TestScripts carries out the requests of testdata/*.txt, and compares the replies.
//
// A line that begins with > is a request, and the next its reply, as peer.read shows it. 3> is a request by RESP3. A
// line that begins with ! is a request whose reply is not that of redis-server 7.0, and one that begins with / or 3/ a
// request that has no reply. The request of > alone is empty: what has come is the reply to an earlier one. With
// COPAL_WRITE=1 the test writes the replies.
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

// redisServer starts a redis-server until the test ends, and skips the test where there is none.
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

func runScript(t *testing.T, name, address string, update, redis bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p, p3 := dial(t, address), dial(t, address)
	p.do("FLUSHALL")
	p3.do("HELLO 3")
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out = append(out, line)
		request, by, own := strings.TrimPrefix(line, "3"), p, strings.HasPrefix(line, "!")
		if request != line {
			by = p3
		}
		if strings.HasPrefix(request, "/") {
			by.send(request[1:])
			continue
		}
		if !strings.HasPrefix(request, ">") && !own {
			continue
		}
		if own && redis {
			if i+1 < len(lines) && isReply(lines[i+1]) {
				i++
				out = append(out, lines[i])
			}
			continue
		}
		got := by.do(request[1:])
		out = append(out, got)
		if update {
			if i+1 < len(lines) && isReply(lines[i+1]) {
				i++
			}
			continue
		}
		if i++; i == len(lines) || lines[i] != got {
			t.Errorf("%s:%d: %s\ngot  %s\nwant %s", name, i, line, got, lines[i:min(i+1, len(lines))])
		}
	}
	if update {
		if err := os.WriteFile(name, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// isReply reports whether a line of a script is a reply.
func isReply(line string) bool {
	return line != "" && !strings.ContainsAny(line[:1], "#>!/") && !strings.HasPrefix(line, "3>") && !strings.HasPrefix(line, "3/")
}
