package redisapi

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/events"
)

// wantEvents compares the next events, such as "set k".
func (p *peer) wantEvents(list ...string) {
	p.t.Helper()
	for _, event := range list {
		name, key, _ := strings.Cut(event, " ")
		p.wantNext(`["pmessage" "__key*" "__keyevent@0__:` + name + `" "` + key + `"]`)
	}
}

// listening returns a client that gets the events of a server.
func (s *Server) listening(dial func() *peer) *peer {
	s.notifies(events.Keyevent | events.All | events.New | events.Miss)
	p := dial()
	p.want("PSUBSCRIBE __key*", `["psubscribe" "__key*" 1]`)
	return p
}

// Programs and commands change one key at the same time. Each command has the event of its name,
// and each change of a program is a set.
func TestEventsOfCommandsAndPrograms(t *testing.T) {
	const each = 200
	s, address := newServer(t)
	listener := s.listening(func() *peer { return dial(t, address) })
	var writers sync.WaitGroup
	for range 2 {
		client := dial(t, address)
		writers.Go(func() {
			for range each {
				client.do("APPEND k 1")
			}
		})
		writers.Go(func() {
			for range each {
				if err := s.DB.Raw().Set([]byte("k"), []byte("1")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	counts := map[string]int{}
	for range 4 * each {
		name := listener.read()
		if strings.Contains(name, "__:new") {
			name = listener.read()
		}
		counts[name]++
	}
	writers.Wait()
	for _, name := range []string{"append", "set"} {
		if n := counts[`["pmessage" "__key*" "__keyevent@0__:`+name+`" "k"]`]; n != 2*each {
			t.Errorf("%d events %s, want %d: %v", n, name, 2*each, counts)
		}
	}
}

// The events of requests that arrive together come once, in the order of the requests.
func TestEventsOfPipelines(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		listener, b := s.listening(dial), dial()
		var request strings.Builder
		var want []string
		for i := range 100 {
			key := "k" + strconv.Itoa(i)
			request.WriteString("LPUSH " + key + " 1\r\nGET none\r\nLPOP " + key + "\r\n")
			want = append(want, "new "+key, "lpush "+key, "keymiss none", "lpop "+key, "del "+key)
		}
		go b.nc.Write([]byte(request.String()))
		for range 300 {
			b.read()
		}
		listener.wantEvents(want...)
	})
}

// Commands of EXEC have their own events, and a transaction that does not commit has none.
func TestEventsOfTransactions(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		listener, a, b := s.listening(dial), dial(), dial()
		for _, request := range []string{"MULTI", "SET k 1", "INCR k", "LPUSH k 1", "GET none", "DEL k", "EXEC"} {
			a.do(request)
		}
		listener.wantEvents("new k", "set k", "incrby k", "keymiss none", "del k")
		a.do("WATCH k")
		a.do("MULTI")
		a.do("SET k 1")
		b.do("APPEND k 1")
		a.want("EXEC", "nil[]")
		listener.wantEvents("new k", "append k")
		a.do("COPAL.BEGIN")
		a.do("INCR k")
		a.do("RPUSH l 1")
		synctest.Wait()
		b.do("HSET h f 1")
		listener.wantEvents("new h", "hset h")
		a.want("COPAL.COMMIT", "OK")
		listener.wantEvents("incrby k", "new l", "rpush l")
		a.do("COPAL.BEGIN")
		a.do("INCR k")
		a.want("COPAL.ROLLBACK", "OK")
		a.do("COPAL.BEGIN")
		a.do("INCR k")
		b.do("DECR k")
		if got := a.do("COPAL.COMMIT"); !strings.HasPrefix(got, "(error) CONFLICT") {
			t.Error(got)
		}
		a.do("GETDEL l")
		a.do("DEL l")
		listener.wantEvents("incrby k", "del l")
	})
}

// A command that is carried out for a client that waits has its own events, after those of the
// command that has woken it.
func TestEventsOfWaitingClients(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		listener, a, b := s.listening(dial), dial(), dial()
		a.begin("BLMOVE l m LEFT RIGHT 0")
		b.do("RPUSH l 1")
		a.wantNext(`"1"`)
		listener.wantEvents("new l", "rpush l", "new m", "rpush m", "lpop l", "del l")
		a.begin("BZPOPMIN z 0")
		if err := s.DB.Raw().SortedSet([]byte("z")).Set("a", 1); err != nil {
			t.Fatal(err)
		}
		a.wantNext(`["z" "a" "1"]`)
		listener.wantEvents("new z", "zadd z", "zpopmin z", "del z")
	})
}

// The command that writes elements of a stream in their stored form has no name in Redis.
func TestEventsOfStoredElements(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		listener, a := s.listening(dial), dial()
		a.do("XADD from 1-1 f 1")
		listener.wantEvents("new from", "xadd from")
		err := s.DB.Update(func(tx *copal.Tx) error { return tx.Raw().Stream([]byte("from")).Rename("to") })
		if err != nil {
			t.Fatal(err)
		}
		listener.wantEvents("rename_from from", "rename_to to")
		a.do("COPAL.STREAM SET to e\x00 x")
		a.do("SET k 1")
		listener.wantEvents("xadd to", "new k", "set k")
	})
}
