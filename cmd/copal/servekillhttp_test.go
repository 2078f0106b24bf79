package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal"
)

// webClient writes by HTTP until the server is gone. It adds to a counter by transactions that have
// keys, and sends one that was not answered again at the next server: so each counts once.
type webClient struct {
	id, acked int
}

func (c *webClient) run(url string, acks *atomic.Int64, enough int64, kill func()) error {
	own := &http.Client{Transport: &http.Transport{}}
	defer own.CloseIdleConnections()
	for {
		n := c.acked + 1
		body := fmt.Sprintf(`{"operations":[{"op":"add","map":"m","key":"n%d"},{"op":"put","map":"m","key":"v%d","value":%d},{"op":"put","map":"o","key":"v%d","value":%d}]}`, c.id, c.id, n, c.id, n)
		request, err := http.NewRequest("POST", url+"/v1/tx", strings.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Idempotency-Key", fmt.Sprintf("%d of %d", n, c.id))
		a, err := own.Do(request)
		if err != nil {
			return nil // it was killed
		}
		text, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil {
			return nil
		}
		if want := fmt.Sprintf(`{"results":[{"status":200,"value":%d},`, n); a.StatusCode != 200 || !strings.HasPrefix(string(text), want) {
			return fmt.Errorf("%d: %s, want %s", a.StatusCode, text, want)
		}
		if c.acked = n; acks.Add(1) == enough {
			kill()
		}
	}
}

// webFollower receives the changes of all servers, one after the other.
type webFollower struct {
	since uint64
	told  []string
}

// follow reads lines until the server is gone, or until the key "last" comes.
func (f *webFollower) follow(url string) (ended bool, err error) {
	request, err := http.NewRequest("GET", fmt.Sprintf("%s/v1/changes?since=%d", url, f.since), nil)
	if err != nil {
		return false, err
	}
	request.Header.Set("Accept", "application/x-ndjson")
	a, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, nil
	}
	defer a.Body.Close()
	if a.StatusCode != 200 {
		return false, fmt.Errorf("since %d: %s", f.since, a.Status)
	}
	for in := bufio.NewReader(a.Body); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return false, nil // a part of a line is none
		}
		var e struct {
			Seq     uint64
			Changes []struct{ Map, Key string }
		}
		if len(line) > 1 {
			if err := json.Unmarshal(line, &e); err != nil {
				return false, fmt.Errorf("%s: %w", line, err)
			}
			f.since = e.Seq
		}
		for _, c := range e.Changes {
			f.told = append(f.told, fmt.Sprintf("%d %s:%s", e.Seq, c.Map, c.Key))
			ended = ended || c.Key == "last"
		}
		if ended {
			return true, nil
		}
	}
}

// A server that is killed while clients write and follow the changes has all acknowledged writes,
// each request once, and sends each change once.
func TestServeHTTPKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	r := rand.New(rand.NewPCG(3, 4))
	lives := 4
	switch {
	case os.Getenv("COPAL_LONG") == "1":
		lives = 300
	case testing.Short():
		lives = 2
	}
	clients := []*webClient{{id: 0}, {id: 1}, {id: 2}}
	var follower webFollower
	for range lives {
		cmd, address := startServe(t, dir, "--redis", "", "--http", "127.0.0.1:0")
		url := "http://" + address
		var acks atomic.Int64
		var all sync.WaitGroup
		enough := 1 + r.Int64N(150)
		for _, c := range clients {
			all.Go(func() {
				if err := c.run(url, &acks, enough, func() { cmd.Process.Kill() }); err != nil {
					t.Error(err)
					cmd.Process.Kill()
				}
			})
		}
		all.Go(func() {
			if _, err := follower.follow(url); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		cmd.Wait()
		if t.Failed() {
			return
		}
	}
	cmd, address := startServe(t, dir, "--redis", "", "--http", "127.0.0.1:0")
	if got := fetch(t, http.DefaultClient, "PUT", "http://"+address+"/v1/maps/m/last", "1"); got != "HTTP/1.1 201 " {
		t.Error(got)
	}
	if ended, err := follower.follow("http://" + address); !ended || err != nil {
		t.Error(ended, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, c := range clients {
		of := func(key string) int {
			value, _ := db.Raw().Get(fmt.Append(nil, key, c.id))
			n, _ := strconv.Atoi(string(value))
			return n
		}
		if n := of("m:n"); n < c.acked || n > c.acked+1 || of("m:v") != n || of("o:v") != n {
			t.Errorf("client %d: %d, %d and %d, of which %d were acknowledged", c.id, n, of("m:v"), of("o:v"), c.acked)
		}
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var want []string
	for c, err := range db.Watch(t.Context(), copal.WithAfter(0), copal.WithUntil(s.Seq())) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%d %s", c.Seq, strings.Replace(string(c.Key), "http%3areplies", "http:replies", 1)))
	}
	if !slices.Equal(follower.told, want) {
		t.Errorf("told %d changes, and there were %d", len(follower.told), len(want))
		for i := range min(len(want), len(follower.told)) {
			if want[i] != follower.told[i] {
				t.Fatalf("change %d is %s, and %s was told", i, want[i], follower.told[i])
			}
		}
	}
}
