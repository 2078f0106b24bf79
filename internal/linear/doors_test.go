package linear

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/httpapi"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi"
)

// The typed API, the Redis server and the HTTP server on the same keys: one order explains all
// their replies, values and entity tags.

// doorState is a key: its value, "" for none, and its entity tag, "" for an unknown one.
type doorState struct{ value, tag string }

// doorCall is a request by one of the doors.
type doorCall struct {
	door, does string
	value, tag string
}

// doorReply is a reply.
type doorReply struct {
	value, tag string // that were read, or are there now
	done       bool   // the condition held, or there was something to delete
}

var doorModel = porcupine.Model{
	Init: func() any { return doorState{} },
	Step: func(state, in, out any) (bool, any) {
		s, c, r := state.(doorState), in.(doorCall), out.(doorReply)
		put := func() (bool, any) { return true, doorState{c.value, r.tag} }
		switch c.does {
		case "get":
			if r.value != s.value || s.tag != "" && r.tag != "" && r.tag != s.tag {
				return false, nil
			}
			if s.tag == "" {
				s.tag = r.tag
			}
			return true, s
		case "set":
			return put()
		case "make", "replace": // if there is none; if the tag is the one that the client has seen
			if holds := c.does == "make" && s.value == "" || c.does == "replace" && s.value != "" && s.tag == c.tag; holds != r.done || !holds {
				return holds == r.done, s
			}
			return put()
		case "delete":
			return r.done == (s.value != ""), doorState{}
		}
		n, _ := strconv.Atoi(s.value) // add
		c.value = strconv.Itoa(n + 1)
		if r.value != c.value {
			return false, nil
		}
		return put()
	},
}

// doors are those of one client.
type doors struct {
	t     *testing.T
	users *copal.Map[string, int]
	http  string
	redis net.Conn
	in    *bufio.Reader
	seen  string // the tag that it has seen last
}

const doorKey = "a"

func (d *doors) do(c *doorCall) doorReply {
	switch c.door {
	case "typed":
		return d.typed(c)
	case "redis":
		return d.byRedis(c)
	}
	method, path, headers := "GET", "/v1/maps/m/"+doorKey, http.Header{}
	switch c.does {
	case "set":
		method = "PUT"
	case "make":
		method = "PUT"
		headers.Set("If-None-Match", "*")
	case "replace":
		method = "PUT"
		headers.Set("If-Match", c.tag)
	case "delete":
		method = "DELETE"
	case "add":
		method, path = "POST", path+"/add"
	}
	request, err := http.NewRequest(method, d.http+path, strings.NewReader(c.value))
	if err != nil {
		d.t.Error(err)
		return doorReply{}
	}
	request.Header = headers
	a, err := http.DefaultClient.Do(request)
	if err != nil {
		d.t.Error(err)
		return doorReply{}
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 500 || a.StatusCode == 400 || a.StatusCode == 422 {
		d.t.Errorf("%s: %d, %s, %v", c.does, a.StatusCode, body, err)
	}
	r := doorReply{tag: a.Header.Get("Etag"), done: a.StatusCode < 300}
	if a.StatusCode == 200 {
		r.value = string(body)
	}
	if r.tag != "" {
		d.seen = r.tag
	}
	return r
}

func (d *doors) typed(c *doorCall) (r doorReply) {
	var err error
	var n int
	switch c.does {
	case "get":
		if n, ok := d.users.Get(doorKey); ok {
			r.value = strconv.Itoa(n)
		}
	case "set":
		n, _ = strconv.Atoi(c.value)
		err = d.users.Set(doorKey, n)
	case "delete":
		r.done, err = d.users.Delete(doorKey)
	case "add":
		n, _, err = d.users.Update(doorKey, func(e *copal.Entry[int]) error {
			e.Value++
			return nil
		})
		r.value = strconv.Itoa(n)
	}
	if err != nil {
		d.t.Error(err)
	}
	return r
}

func (d *doors) byRedis(c *doorCall) (r doorReply) {
	args := map[string][]string{"get": {"GET", "m:a"}, "set": {"SET", "m:a", c.value}, "delete": {"DEL", "m:a"}, "add": {"INCR", "m:a"}}[c.does]
	_, err := d.redis.Write(resp.AppendRequest(nil, args...))
	var reply any
	if err == nil {
		reply, err = resp.ReadReply(d.in)
	}
	if err != nil {
		d.t.Error(err)
	}
	switch reply := reply.(type) {
	case int64:
		r.value, r.done = strconv.FormatInt(reply, 10), reply > 0
	case []byte:
		r.value = string(reply)
	case resp.ErrorReply:
		d.t.Error(reply)
	}
	return r
}

func TestDoorsAgree(t *testing.T) {
	const rounds = 60
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		db, err := copal.OpenMemory(copal.WithCodec(c))
		if err != nil {
			t.Fatal(err)
		}
		users, err := copal.OpenMap[string, int](db, "m")
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(httpapi.Handler(db))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &redisapi.Server{DB: db}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		var clients []*doors
		for range 4 {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, &doors{t: t, users: users, http: web.URL, redis: conn, in: bufio.NewReader(conn)})
		}
		for round := range rounds {
			if _, err := users.Delete(doorKey); err != nil {
				t.Fatal(err)
			}
			history := doorHistory(clients, uint64(round))
			if !porcupine.CheckOperations(doorModel, history) {
				for _, o := range history {
					t.Logf("%d–%d, client %d: %+v %+v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
				}
				t.Fatalf("codec %s, round %d: no order explains", c.Name(), round)
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		http.DefaultClient.CloseIdleConnections()
		web.Close()
		for _, d := range clients {
			d.redis.Close()
		}
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != redisapi.ErrServerClosed {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// doorHistory runs clients at the same time, and returns their operations.
func doorHistory(clients []*doors, seed uint64) (history []porcupine.Operation) {
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for i, d := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		d.seen = `"1"`
		all.Go(func() {
			for n := range 8 {
				c := doorCall{door: []string{"http", "http", "typed", "redis"}[r.IntN(4)], value: fmt.Sprint(100*(i+1) + n)}
				if c.does = []string{"get", "get", "set", "delete", "add", "make", "replace", "replace"}[r.IntN(8)]; c.does == "make" || c.does == "replace" {
					c.door, c.tag = "http", d.seen
				}
				call := time.Since(began)
				reply := d.do(&c)
				o := porcupine.Operation{ClientId: i, Input: c, Output: reply, Call: int64(call), Return: int64(time.Since(began))}
				mu.Lock()
				history = append(history, o)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return history
}
