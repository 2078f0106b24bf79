package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/remote"
)

// Typed maps by package remote, on a server that is killed while they are used and started again:
// one order explains the replies of all calls. A call whose outcome is unknown may have been
// carried out at any time after it began, or never. A call with another error was not carried out.

// remoteCall is a call of a history. remoteReply is its reply. Values are above 0, and 0 is none.
type remoteCall struct {
	does  string
	value int
}

type remoteReply struct {
	value   int
	unknown bool
}

// remoteStep returns the value after a call, and whether the reply is right.
func remoteStep(now int, c remoteCall) (next, says int) {
	switch c.does {
	case "get":
		return now, now
	case "set":
		return c.value, 0
	case "add":
		return now + 1, now + 1
	case "get or set":
		if now == 0 {
			return c.value, c.value
		}
		return now, now
	case "get and delete":
		return 0, now
	}
	return 0, min(now, 1) // delete says whether there was one
}

var remoteModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{0} },
	Step: func(state, in, out any) []any {
		next, says := remoteStep(state.(int), in.(remoteCall))
		switch r := out.(remoteReply); {
		case r.unknown:
			return []any{state, next}
		case r.value == says:
			return []any{next}
		}
		return nil
	},
}).ToModel()

// remoteHistory has the calls of clients on one key.
type remoteHistory struct {
	clock atomic.Int64
	mu    sync.Mutex // guards all
	all   []porcupine.Operation
}

// do makes a call, and notes it unless it was not carried out. It reports whether the server has
// answered.
func (h *remoteHistory) do(client int, users *copal.Map[string, int], key string, c remoteCall) (answered bool) {
	o := porcupine.Operation{ClientId: client, Input: c, Call: h.clock.Add(1)}
	value, err := callRemote(users, key, c)
	o.Return = h.clock.Add(1)
	if err != nil {
		if !errors.Is(err, copal.ErrUnknown) {
			return false
		}
		o.Return = math.MaxInt64
	}
	o.Output = remoteReply{value, err != nil}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, o)
	return err == nil
}

func callRemote(users *copal.Map[string, int], key string, c remoteCall) (value int, err error) {
	switch c.does {
	case "get":
		if value, err = users.Load(key); errors.Is(err, copal.ErrNotFound) {
			err = nil
		}
	case "set":
		err = users.Set(key, c.value)
	case "add":
		value, _, err = users.Update(key, func(e *copal.Entry[int]) error { e.Value++; return nil })
	case "get or set":
		value, _, err = users.GetOrSet(key, c.value)
	case "get and delete":
		value, _, err = users.GetAndDelete(key)
	default:
		var existed bool
		if existed, err = users.Delete(key); existed {
			value = 1
		}
	}
	return value, err
}

// killedServer is copal serve at one address, which a test kills and starts again.
type killedServer struct {
	t            *testing.T
	dir, address string
	mu           sync.Mutex // guards cmd and up
	cmd          *exec.Cmd
	up           chan struct{} // closed when the server that runs has begun to serve
}

func (s *killedServer) start() {
	cmd, address := startServe(s.t, s.dir, "--redis", s.address)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.address = cmd, address
	close(s.up)
}

func (s *killedServer) kill() {
	s.mu.Lock()
	cmd := s.cmd
	s.up = make(chan struct{})
	s.mu.Unlock()
	cmd.Process.Kill()
	cmd.Wait()
}

func (s *killedServer) waitUp() {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	<-up
}

// closedClient is a store on a server, which is closed and reopened in the midst of its calls.
type closedClient struct {
	mu    sync.Mutex // guards all
	db    *copal.DB
	users *copal.Map[string, int]
}

func (c *closedClient) open(t *testing.T, address string) {
	db, err := remote.Open(t.Context(), "redis://"+address, copal.WithErrorHandler(func(err error) { t.Error("the error handler got", err) }))
	if err != nil {
		t.Fatal(err)
	}
	users, err := copal.OpenMap[string, int](db, "users")
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db, c.users = db, users
}

func (c *closedClient) now() (*copal.DB, *copal.Map[string, int]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.db, c.users
}

func (c *closedClient) close() error {
	db, _ := c.now()
	return db.Close()
}

// cutAll ends the connections of all clients of a server.
func cutAll(t *testing.T, address string) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write([]byte("*6\r\n$6\r\nCLIENT\r\n$4\r\nKILL\r\n$4\r\nTYPE\r\n$6\r\nnormal\r\n$6\r\nSKIPME\r\n$3\r\nyes\r\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(nc).ReadString('\n'); err != nil || line[0] != ':' || line == ":0\r\n" {
		t.Fatalf("CLIENT KILL says %q, %v", line, err)
	}
}

// TestRemoteIsLinearizableOverKills: in each history all connections are cut once, the server is
// killed once, and a client closes and reopens its store. With COPAL_LONG there are 400 histories
// (some minutes).
func TestRemoteIsLinearizableOverKills(t *testing.T) {
	rounds, clients, calls := 8, 4, 12
	if os.Getenv("COPAL_LONG") == "1" {
		rounds = 400
	}
	s := &killedServer{t: t, dir: filepath.Join(t.TempDir(), "store"), address: "127.0.0.1:0", up: make(chan struct{})}
	s.start()
	defer s.kill()
	list := make([]*closedClient, clients)
	for i := range list {
		list[i] = &closedClient{}
		list[i].open(t, s.address)
		defer list[i].close()
	}
	unknown, all := 0, 0
	for round := range rounds {
		h, key := &remoteHistory{}, fmt.Sprint("key", round)
		var done atomic.Int64
		var parts [3]chan struct{} // closed when a quarter of all calls is done, a half, and three quarters
		for i := range parts {
			parts[i] = make(chan struct{})
		}
		var wait sync.WaitGroup
		for i, client := range list {
			r := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			wait.Go(func() {
				for n := 0; n < calls; {
					c := remoteCall{[]string{"get", "get", "set", "add", "add", "get or set", "get and delete", "delete"}[r.IntN(8)], 1000*(i+1) + 100*n}
					_, users := client.now()
					if !h.do(i, users, key, c) {
						s.waitUp()
						continue
					}
					n++
					if many, quarter := int(done.Add(1)), clients*calls/4; many%quarter == 0 && many < 4*quarter {
						close(parts[many/quarter-1])
					}
				}
			})
		}
		<-parts[0]
		cutAll(t, s.address)
		<-parts[1]
		s.kill()
		s.start()
		<-parts[2]
		if err := list[round%clients].close(); err != nil {
			t.Error(err)
		}
		list[round%clients].open(t, s.address)
		wait.Wait()
		for _, o := range h.all {
			if o.Output.(remoteReply).unknown {
				unknown++
			}
		}
		all += len(h.all)
		if !porcupine.CheckOperations(remoteModel, h.all) {
			for _, o := range h.all {
				t.Logf("%d–%d, client %d: %+v %+v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
			}
			t.Fatalf("round %d: no order explains", round)
		}
	}
	t.Logf("%d histories of %d calls, of which %d have an unknown outcome", rounds, all, unknown)
	if unknown == 0 {
		t.Error("no outcome was unknown: this has tested little")
	}
}
