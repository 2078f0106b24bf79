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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal"
)

// startServe runs copal serve as a process of its own, and returns where it listens.
func startServe(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: program, Args: []string{"copal", "serve", dir, "--redis", "127.0.0.1:0", "--log", "json"}, Env: os.Environ()}
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

// killedClient writes by the Redis protocol until the server is gone: number n, under a key that is one of the
// client's own, and in one transaction with it the same in another. In between come commands that are refused.
type killedClient struct {
	id, sent, acked int
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
		fmt.Fprintf(nc, "SET %d:one %d\r\nLPUSH %d:one refused\r\nMULTI\r\nSET %d:a %d\r\nSET %d:b %d\r\nEXEC\r\n", k.id, k.sent, k.id, k.id, k.sent, k.id, k.sent)
		want := []string{"+OK", "-", "+OK", "+QUEUED", "+QUEUED", "*2", "+OK", "+OK"}
		for _, w := range want {
			line, err := r.ReadString('\n')
			if err != nil {
				return nil // it was killed
			}
			if !strings.HasPrefix(line, w) {
				return fmt.Errorf("%q, want %q", line, w)
			}
		}
		k.acked = k.sent
		if acks.Add(1) == enough {
			kill()
		}
	}
}

// A server that is killed while clients write has, when it is there again, all that was acknowledged and whole
// transactions.
func TestServeKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	r := rand.New(rand.NewPCG(1, 2))
	clients := make([]*killedClient, 4)
	for i := range clients {
		clients[i] = &killedClient{id: i}
	}
	lives := 6
	if testing.Short() {
		lives = 2
	}
	for range lives {
		cmd, address := startServe(t, dir)
		var acks atomic.Int64
		var wg sync.WaitGroup
		enough := 1 + r.Int64N(400)
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
			var got [3]int
			for i, key := range []string{"one", "a", "b"} {
				text, _ := db.Raw().Get(fmt.Appendf(nil, "%d:%s", c.id, key))
				got[i], _ = strconv.Atoi(string(text))
			}
			if got[0] < c.acked || got[0] > c.sent || got[1] < c.acked || got[1] > c.sent || got[1] != got[2] {
				t.Errorf("client %d: %v is there; %d were acknowledged, %d sent", c.id, got, c.acked, c.sent)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
	}
}
