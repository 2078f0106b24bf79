package redisapi

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// door has two keys as requests see them: "" for a missing key.
type door [2]string

// asked is a request of a history. Several commands are one MULTI.
type asked []string

// operation is a request of a history, between two moments, and its reply.
type operation struct {
	client    int
	call, end time.Duration
	request   asked
	reply     string
}

// apply returns the keys after the operation, and whether Redis would give its reply.
func (o *operation) apply(d door) (door, bool) {
	var replies []string
	for _, words := range o.request {
		replies = append(replies, d.carryOut(strings.Fields(words)))
	}
	want := replies[0]
	if len(replies) > 1 {
		want = "[" + strings.Join(replies, " ") + "]"
	}
	return d, want == o.reply
}

// explained reports whether there is an order of the operations, each between its call and its end, in which every
// reply is right. All are tried, each set of operations with its outcome once: J. M. Wing and C. Gong, Testing and
// verifying concurrent objects, 1993.
func explained(history []operation) bool {
	type done struct {
		set  uint64
		keys door
	}
	tried := map[done]bool{}
	var follow func(at done) bool
	follow = func(at done) bool {
		if at.set == 1<<len(history)-1 {
			return true
		}
		if tried[at] {
			return false
		}
		tried[at] = true
		// The first end of an operation that is left. An operation called later cannot come before it.
		first := time.Duration(1<<63 - 1)
		for i := range history {
			if at.set&(1<<i) == 0 {
				first = min(first, history[i].end)
			}
		}
		for i := range history {
			if at.set&(1<<i) != 0 || history[i].call > first {
				continue
			}
			if keys, right := history[i].apply(at.keys); right && follow(done{at.set | 1<<i, keys}) {
				return true
			}
		}
		return false
	}
	return follow(done{})
}

func (d *door) carryOut(words []string) string {
	key := &d[words[1][0]-'a']
	shown := func(s string) string {
		if s == "" {
			return "nil"
		}
		return strconv.Quote(s)
	}
	switch words[0] {
	case "GET":
		return shown(*key)
	case "SET":
		before := *key
		switch {
		case len(words) == 3:
		case words[3] == "IFEQ" && before != words[4]:
			return "nil"
		case words[3] == "GET":
			*key = words[2]
			return shown(before)
		}
		*key = words[2]
		return "OK"
	case "SETNX":
		if *key != "" {
			return "0"
		}
		*key = words[2]
		return "1"
	case "INCR":
		n, _ := strconv.Atoi(*key)
		if *key != "" && strconv.Itoa(n) != *key { // it begins with 0, or is too long
			return "(error) ERR value is not an integer or out of range"
		}
		*key = strconv.Itoa(n + 1)
		return *key
	case "APPEND":
		*key += words[2]
		return strconv.Itoa(len(*key))
	case "GETDEL":
		before := *key
		*key = ""
		return shown(before)
	case "RENAME":
		if *key == "" {
			return "(error) ERR no such key"
		}
		moved := *key
		*key = ""
		d[words[2][0]-'a'] = moved
		return "OK"
	case "MGET":
		return "[" + shown(d[0]) + " " + shown(d[1]) + "]"
	}
	panic(words[0])
}

func someRequest(r *rand.Rand) asked {
	one := func() string {
		key, other := string(rune('a'+r.IntN(2))), ""
		other = string(rune('a' + 'b' - key[0]))
		switch r.IntN(12) {
		case 0, 1, 2:
			return "GET " + key
		case 3, 4:
			return fmt.Sprintf("SET %s %d", key, r.IntN(5))
		case 5:
			return fmt.Sprintf("SET %s %d IFEQ %d", key, r.IntN(5), r.IntN(5))
		case 6:
			return fmt.Sprintf("SET %s %d GET", key, r.IntN(5))
		case 7:
			return fmt.Sprintf("SETNX %s %d", key, r.IntN(5))
		case 8:
			return fmt.Sprintf("APPEND %s %d", key, 1+r.IntN(4))
		case 9:
			return "GETDEL " + key
		case 10:
			return "RENAME " + key + " " + other
		}
		return "MGET a b"
	}
	if r.IntN(3) > 0 {
		if r.IntN(6) == 0 {
			return asked{"INCR a"}
		}
		return asked{one()}
	}
	list := asked{}
	for range 2 + r.IntN(2) {
		list = append(list, one())
	}
	return list
}

// ask carries out a request.
func (p *peer) ask(of asked) string {
	if len(of) == 1 {
		return p.do(of[0])
	}
	p.do("MULTI")
	for _, words := range of {
		p.do(words)
	}
	return p.do("EXEC")
}

// Histories of clients that do different things to the same keys at once have an order that explains every reply.
func TestLinearizable(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	_, address := newServer(t)
	const clients, each = 4, 7
	var peers []*peer
	for range clients {
		peers = append(peers, dial(t, address))
	}
	for round := range rounds {
		peers[0].want("FLUSHALL", "OK")
		var mu sync.Mutex
		var history []operation
		var wg sync.WaitGroup
		began := time.Now()
		for c, p := range peers {
			r := rand.New(rand.NewPCG(uint64(round), uint64(c)))
			wg.Go(func() {
				for range each {
					o := operation{client: c, request: someRequest(r), call: time.Since(began)}
					o.reply = p.ask(o.request)
					o.end = time.Since(began)
					mu.Lock()
					history = append(history, o)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if !explained(history) {
			for _, o := range history {
				t.Logf("%d: %d–%d %q → %s", o.client, o.call, o.end, o.request, o.reply)
			}
			t.Fatalf("round %d: no order explains the replies", round)
		}
	}
}
