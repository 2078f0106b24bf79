package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal"
)

// startServe runs copal serve as a process of its own, and returns where it listens.
func startServe(t *testing.T, dir string, flags ...string) (*exec.Cmd, string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: program, Args: append([]string{"copal", "serve", dir, "--redis", "127.0.0.1:0", "--http", "", "--log", "json"}, flags...), Env: os.Environ()}
	told, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(told)
	for lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			go func() {
				for lines.Scan() { // so that it never waits for a reader
				}
			}()
			return cmd, line.Address
		}
	}
	t.Fatalf("it says no address: %v", cmd.Wait())
	return nil, ""
}

// killedClient writes by the Redis protocol until the server is gone: number n, in several forms
// under keys that are the client's own, and several commands that are refused.
type killedClient struct {
	id, sent, acked int
}

// round is the text that a client sends in one piece, and the beginnings of the replies.
var round = []struct{ request, reply string }{
	{"SET ID:one N", "+OK"},
	{"RPUSH ID:list N", ":"},
	{"MULTI", "+OK"}, {"SET ID:a N", "+QUEUED"}, {"LPUSH ID:one refused", "+QUEUED"}, {"HSET ID:b n N", "+QUEUED"},
	{"EXEC", "*3"}, {"", "+OK"}, {"", "-WRONGTYPE"}, {"", ":"},
	{"MSET ID:refused 1 " + strings.Repeat("k", copal.MaxKeyBytes+1) + " 2", "-ERR a key is longer"},
	{"SET ID:refused N EX 0", "-ERR invalid expire"},
	{"MULTI", "+OK"}, {"SET ID:refused N", "+QUEUED"}, {"GET", "-ERR wrong number"}, {"EXEC", "-EXECABORT"},
	{"WATCH ID:one", "+OK"}, {"SET ID:one N", "+OK"}, {"MULTI", "+OK"}, {"SET ID:refused N", "+QUEUED"}, {"EXEC", "*-1"},
}

func (k *killedClient) run(address string, acks *atomic.Int64, enough int64, kill func()) error {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer nc.Close()
	r := bufio.NewReader(nc)
	for {
		k.sent++
		var out []byte
		for _, each := range round {
			words := strings.Fields(strings.NewReplacer("ID", strconv.Itoa(k.id), "N ", strconv.Itoa(k.sent)+" ").Replace(each.request + " "))
			if len(words) > 0 {
				out = fmt.Appendf(out, "*%d\r\n", len(words))
			}
			for _, w := range words {
				out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(w), w)
			}
		}
		nc.Write(out)
		for _, each := range round {
			line, err := r.ReadString('\n')
			if err != nil {
				return nil // it was killed
			}
			if !strings.HasPrefix(line, each.reply) {
				return fmt.Errorf("%s: %q, want %q", each.request, line, each.reply)
			}
		}
		k.acked = k.sent
		if acks.Add(1) == enough {
			kill()
		}
	}
}

// judge compares the store with the replies to the client. The client goes on after the last number
// that it finds.
func (k *killedClient) judge(t *testing.T, raw *copal.Raw) {
	t.Helper()
	number := func(text []byte) int {
		n, _ := strconv.Atoi(string(text))
		return n
	}
	key := func(name string) []byte { return fmt.Appendf(nil, "%d:%s", k.id, name) }
	one, _ := raw.Get(key("one"))
	a, _ := raw.Get(key("a"))
	b, _ := raw.Hash(key("b")).Get("n")
	got := []int{number(one), raw.List(key("list")).Len(), number(a)}
	for _, n := range got {
		if n < k.acked || n > k.sent {
			t.Errorf("client %d: %v is there; %d were acknowledged, %d sent", k.id, got, k.acked, k.sent)
		}
	}
	if string(a) != string(b) {
		t.Errorf("client %d: half of a transaction is there: %s and %s", k.id, a, b)
	}
	if raw.Has(key("refused")) {
		t.Errorf("client %d: what was refused is there", k.id)
	}
	n := 0
	for text := range raw.List(key("list")).All() {
		if n++; number(text) != n {
			t.Fatalf("client %d: element %d of the list is %s", k.id, n, text)
		}
	}
	k.sent, k.acked = n, slices.Min(got)
}

// A server that is killed while clients write has, when it is there again, all acknowledged writes,
// whole transactions, and no refused write. Writes without a reply may be there.
func TestServeKilled(t *testing.T) {
	for _, durability := range []string{"write", "fsync"} {
		t.Run(durability, func(t *testing.T) { serveKilled(t, durability) })
	}
}

func serveKilled(t *testing.T, durability string) {
	dir := filepath.Join(t.TempDir(), "store")
	r := rand.New(rand.NewPCG(1, 2))
	clients := make([]*killedClient, 4)
	for i := range clients {
		clients[i] = &killedClient{id: i}
	}
	lives := 3
	switch {
	case os.Getenv("COPAL_LONG") == "1":
		lives = 60
	case testing.Short():
		lives = 1
	}
	for range lives {
		cmd, address := startServe(t, dir, "--durability", durability)
		var acks atomic.Int64
		var wg sync.WaitGroup
		enough := 1 + r.Int64N(200)
		for _, c := range clients {
			wg.Go(func() {
				if err := c.run(address, &acks, enough, func() { cmd.Process.Kill() }); err != nil {
					t.Error(err)
					cmd.Process.Kill()
				}
			})
		}
		wg.Wait()
		cmd.Wait()
		db, err := copal.Open(dir, copal.ReadOnly())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range clients {
			c.judge(t, db.Raw())
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
	}
}
