package redisapi

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/server"
)

// users returns the users of a server.
func users(t *testing.T, list ...access.User) *access.Users {
	t.Helper()
	u, err := access.New(list...)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var shop = access.User{Name: "shop", Tokens: []string{access.Hash("shop")}, Read: []string{"prices"}, Write: []string{"orders"}}

// withoutKeys are the commands without keys that a user with rights to some maps may use. SCAN and KEYS look
// at their patterns.
const withoutKeys = "acl|whoami asking auth client|caching client|durability client|getname client|getredir client|id client|info client|no-touch client|reply " +
	"client|setinfo client|setname client|tracking client|trackinginfo cluster|countkeysinslot cluster|info cluster|keyslot cluster|myid cluster|nodes " +
	"cluster|shards cluster|slots command command|count command|docs command|getkeys command|getkeysandflags command|info command|list copal.begin copal.commit " +
	"copal.feed|close copal.feed|next copal.feed|open copal.map|declare copal.map|list copal.map|orders copal.rollback copal.schema|get copal.schema|set dbsize discard echo exec " +
	"function|kill function|list function|stats hello info keys lastsave memory|doctor memory|purge memory|stats multi ping psubscribe publish " +
	"pubsub|channels pubsub|numpat pubsub|numsub pubsub|shardchannels pubsub|shardnumsub punsubscribe quit readonly readwrite reset role scan script|exists script|flush " +
	"script|kill select spublish ssubscribe subscribe sunsubscribe time unsubscribe unwatch wait waitaof"

// Every command has keys whose rights are checked, or needs the right to everything, or is in
// withoutKeys.
func TestEachCommandNeedsARight(t *testing.T) {
	s := &Server{Access: users(t, shop)}
	c := &client{s: s}
	c.Grant.Store(s.Access.Find("shop", "shop"))
	var free []string
	for _, cmd := range table.Numbered {
		if cmd.Name == "help" || len(cmd.Subs) > 0 && cmd.Run == nil {
			continue
		}
		refused := func(key string) (int, error) {
			args := [][]byte{[]byte(cmd.Name)}
			for len(args) < max(cmd.Arity, -cmd.Arity)+1 {
				args = append(args, []byte("1"))
			}
			switch cmd.Name {
			case "copal.typed":
				args = [][]byte{[]byte(cmd.Name), []byte("GET"), nil}
			case "xread", "xreadgroup":
				args = [][]byte{[]byte(cmd.Name), []byte("STREAMS"), nil, []byte("0")}
			}
			n := 0
			cmd.Keys.Each(args, func(i int) {
				args[i] = []byte(key)
				n++
			})
			c.Row, c.Args = cmd, args
			return n, c.mayDo()
		}
		n, err := refused("secrets:1")
		switch {
		case n > 0 && err == nil:
			t.Errorf("%s is carried out on the keys of any map", cmd.FullName())
		case n == 0 && !cmd.Keys.None():
			t.Errorf("the test finds no keys of %s", cmd.FullName())
		case n == 0 && err == nil:
			free = append(free, cmd.FullName())
			continue
		}
		if n == 0 || cmd.Flags&command.Admin != 0 {
			continue
		}
		if _, err := refused("orders:1"); err != nil {
			t.Errorf("%s of a map that may be written: %v", cmd.FullName(), err)
		}
		if _, err := refused("prices:1"); (err != nil) != (cmd.Flags&command.Write != 0 && !(cmd.Sources == command.TheFirst && n == 1)) {
			t.Errorf("%s of a map that may be read: %v", cmd.FullName(), err)
		}
	}
	slices.Sort(free)
	if got := strings.Join(free, " "); got != withoutKeys {
		t.Errorf("without keys, for everybody:\n%s", got)
	}
}

func TestRightsByMap(t *testing.T) {
	_, address := newServer(t, func(s *Server) { s.Access = users(t, shop, access.Password("all")) })
	all, p := dial(t, address), dial(t, address)
	all.want("AUTH all", "OK")
	for _, words := range []string{"SET prices:a 1", "SET secrets:a 1", "SADD prices:s a b", "SADD secrets:s a", "SET key 1"} {
		if got := all.do(words); strings.HasPrefix(got, "(error)") {
			t.Fatal(got)
		}
	}
	const no = "(error) NOPERM No permissions to access a key"
	p.want("AUTH shop wrong", "(error) WRONGPASS invalid username-password pair or user is disabled.")
	p.want("AUTH other shop", "(error) WRONGPASS invalid username-password pair or user is disabled.")
	p.want("AUTH shop", "OK")
	p.want("ACL WHOAMI", `"shop"`)
	for _, c := range [][2]string{
		{"GET prices:a", `"1"`}, {"GET secrets:a", no}, {"GET key", no}, {"SET prices:a 2", no}, {"SET orders:a 1", "OK"}, {"GET orders:a", `"1"`},
		{"MGET prices:a secrets:a", no}, {"MSET orders:b 1 prices:a 1", no}, {"DEL orders:b prices:a", no},
		{"COPY prices:a orders:b", "1"}, {"COPY orders:b prices:b", no}, {"RENAME prices:a orders:c", no}, {"COPY secrets:a orders:b", no},
		{"COPY orders:a orders:a DB 1", no}, {"MOVE orders:a 1", no},
		{"SUNIONSTORE orders:s prices:s", "2"}, {"SUNIONSTORE orders:s secrets:s", no}, {"SUNIONSTORE prices:s orders:s", no},
		{"SORT prices:s ALPHA", `["a" "b"]`}, {"SORT prices:s ALPHA STORE orders:l", "2"}, {"SORT prices:s ALPHA STORE prices:l", no},
		{"SORT prices:s BY secrets:*", no}, {"SORT prices:s BY nosort GET secrets:*", no}, {"SORT prices:s BY nosort GET *", no},
		{"SORT prices:s BY orders:* GET # GET prices:*", `["a" "1" "b" nil]`},
		{"KEYS prices:*", `["prices:a" "prices:s"]`}, {"KEYS *", no}, {"KEYS price*", no}, {"KEYS secrets:a", no},
		{"SCAN 0 MATCH prices:a*", `["0" ["prices:a"]]`}, {"SCAN 0", no}, {"SCAN 0 MATCH *:a", no},
		{"RANDOMKEY", "(error) NOPERM User shop has no permissions to run the 'randomkey' command"}, {"CLUSTER COUNTKEYSINSLOT 1", string("(error) " + server.ErrNoCluster)},
		{"CLIENT TRACKING ON REDIRECT 1", "(error) ERR The client ID you want redirect to does not exist"},
		{"FLUSHALL", "(error) NOPERM User shop has no permissions to run the 'flushall' command"},
		{"CONFIG SET maxclients 1", "(error) NOPERM User shop has no permissions to run the 'config|set' command"},
		{"MONITOR", "(error) NOPERM User shop has no permissions to run the 'monitor' command"},
		{"WATCH secrets:a", no}, {"OBJECT ENCODING secrets:a", no}, {"MEMORY USAGE secrets:a", no}, {"XREAD STREAMS secrets:a 0", no},
		{"BLPOP prices:l 0", no}, {"BLMOVE orders:x prices:l LEFT LEFT 0", no},
		{"MULTI", "OK"}, {"SET orders:a 3", "QUEUED"}, {"SET secrets:a 3", no}, {"EXEC", "(error) EXECABORT Transaction discarded because of previous errors."},
		{"GET orders:a", `"1"`},
		{"SELECT 1", "OK"}, {"GET orders:a", no}, {"SELECT 0", "OK"},
		{"MULTI", "OK"}, {"SELECT 1", "QUEUED"}, {"GET orders:a", "QUEUED"}, {"EXEC", "[OK (error) NOPERM No permissions to access a key]"},
	} {
		p.want(c[0], c[1])
	}
	if got := all.do("CLIENT LIST"); !strings.Contains(got, "user=shop") || !strings.Contains(got, "user=default") {
		t.Error(got)
	}
	all.want("ACL USERS", `["default" "shop"]`)
	all.want("CLIENT KILL USER nobody", "(error) ERR No such user 'nobody'")
	all.want("CLIENT KILL USER shop", "1")
	if text, err := io.ReadAll(p.r); len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
}

// Messages about keys go to the clients that may read the keys.
func TestNotificationsByRight(t *testing.T) {
	_, address := newServer(t, func(s *Server) {
		s.Access = users(t, shop, access.Password("all"))
	})
	all, p, tracks := dial(t, address), dial(t, address), dial(t, address)
	all.want("AUTH all", "OK")
	all.want("CONFIG SET notify-keyspace-events KEA", "OK")
	p.want("AUTH shop", "OK")
	tracks.want("AUTH shop", "OK")
	if got := tracks.do("HELLO 3"); !strings.Contains(got, "proto") {
		t.Fatal(got)
	}
	tracks.want("CLIENT TRACKING ON BCAST", "OK")
	p.want("PSUBSCRIBE __key*", `["psubscribe" "__key*" 1]`)
	for i := range 3 {
		all.want(fmt.Sprintf("SET secrets:%d 1", i), "OK")
		all.want(fmt.Sprintf("SET prices:%d 1", i), "OK")
		p.wantNext(fmt.Sprintf(`["pmessage" "__key*" "__keyspace@0__:prices:%d" "set"]`, i))
		p.wantNext(fmt.Sprintf(`["pmessage" "__key*" "__keyevent@0__:set" "prices:%d"]`, i))
		tracks.wantNext(fmt.Sprintf(`>["invalidate" ["prices:%d"]]`, i))
	}
}

// A connection ends when its user has other rights, also one that waits for a key; others stay.
func TestConnectionEndsWithTheRight(t *testing.T) {
	u := users(t, shop, access.Password("all"))
	_, address := newServer(t, func(s *Server) { s.Access = u })
	all, p, waits := dial(t, address), dial(t, address), dial(t, address)
	all.want("AUTH all", "OK")
	p.want("AUTH shop", "OK")
	waits.want("AUTH shop", "OK")
	waits.send("BLPOP orders:l 0")
	for !strings.Contains(all.do("INFO clients"), `blocked_clients:1\r`) {
	}
	changed := shop
	changed.Read = nil
	if err := u.Set(changed, access.Password("all")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*peer{p, waits} {
		if text, err := io.ReadAll(c.r); len(text) > 0 {
			t.Errorf("%q, %v", text, err)
		}
	}
	all.want("RPUSH orders:l a", "1")
	all.want("LLEN orders:l", "1")
	again := dial(t, address)
	again.want("AUTH shop shop", "OK")
	again.want("GET prices:a", "(error) NOPERM No permissions to access a key")
	again.want("RESET", "RESET")
	if err := u.Set(access.Password("all")); err != nil {
		t.Fatal(err)
	}
	again.want("AUTH all", "OK")
	again.want("GET prices:a", "nil")
}

// The cursor of a SCAN has a key of the client's own map, and continues only the walk that returned
// it. Otherwise a walk over members of the client's own would reveal the key of another cursor.
func TestCursorsTellNothing(t *testing.T) {
	_, address := newServer(t, func(s *Server) { s.Access = users(t, shop, access.Password("all")) })
	all, p := dial(t, address), dial(t, address)
	all.want("AUTH all", "OK")
	p.want("AUTH shop", "OK")
	for i := range 30 {
		all.want(fmt.Sprintf("MSET a:%d 1 z:%d 1", i, i), "OK")
		p.want(fmt.Sprintf("SADD orders:s %d", i), "1")
	}
	p.want("SCAN 0 MATCH orders:none COUNT 1", `["0" []]`)
	const unknown = "(error) ERR invalid cursor: it is not known any more, begin again with 0"
	cursor := func(reply string) string { return strings.Split(reply, `"`)[1] }
	whole := cursor(all.do("SCAN 0 COUNT 1"))
	p.want("SSCAN orders:s "+whole, unknown)
	p.want("SCAN "+whole+" MATCH orders:s", unknown) // each user has cursors of its own
	own := cursor(p.do("SSCAN orders:s 0 COUNT 1"))
	p.want("SADD orders:other a", "1")
	p.want("SSCAN orders:other "+own, unknown)
	all.want("SELECT 1", "OK")
	all.want("SCAN "+whole, unknown)
}

// Tracking is by the name of a key, in whatever database. Messages go to clients that may read the
// key.
func TestTrackingOfNamesByRight(t *testing.T) {
	one := access.User{Name: "one", Tokens: []string{access.Hash("one")}, Write: []string{"db:1"}}
	_, address := newServer(t, func(s *Server) { s.Access = users(t, one, access.Password("all")) })
	all, p := dial(t, address), dial(t, address)
	all.want("AUTH all", "OK")
	p.want("AUTH one", "OK")
	p.do("HELLO 3")
	p.want("SELECT 1", "OK")
	p.want("CLIENT TRACKING ON", "OK")
	p.want("GET secrets:a", "nil")
	p.want("GET b", "nil")
	all.want("SET secrets:a 1", "OK")
	all.want("SELECT 1", "OK")
	all.want("SET b 1", "OK")
	p.wantNext(`>["invalidate" ["b"]]`)
	all.want("SET secrets:a 1", "OK")
	p.wantNext(`>["invalidate" ["secrets:a"]]`)
}

// The watches, the tracking and the MONITOR of a client end when it becomes another user.
func TestAnotherUserBeginsAnew(t *testing.T) {
	_, address := newServer(t, func(s *Server) { s.Access = users(t, shop, access.Password("all")) })
	all, p := dial(t, address), dial(t, address)
	all.want("AUTH all", "OK")
	p.want("AUTH all", "OK")
	p.want("WATCH secrets:a", "OK")
	p.do("HELLO 3")
	p.want("CLIENT TRACKING ON", "OK")
	p.want("GET secrets:b", "nil")
	p.want("MONITOR", "OK")
	p.want("AUTH shop", "OK")
	all.want("MSET secrets:a 1 secrets:b 1", "OK")
	for _, pair := range [][2]string{{"CLIENT GETREDIR", "-1"}, {"MULTI", "OK"}, {"EXEC", "[]"}, {"MULTI", "OK"}, {"AUTH all", "(error) ERR Command not allowed inside a transaction"}, {"DISCARD", "OK"}} {
		p.want(pair[0], pair[1])
	}
}

// Requests that have arrived are not carried out after the user is gone, and no element is popped
// for them.
func TestNothingBehindRevocation(t *testing.T) {
	u := users(t, shop, access.Password("all"))
	s, address := newServer(t, func(s *Server) { s.Access = u })
	all := dial(t, address)
	all.want("AUTH all", "OK")
	for range 50 {
		p := dial(t, address)
		p.want("AUTH shop", "OK")
		p.send("BLPOP orders:l 0")
		for range 100 {
			p.send("INCR orders:after")
		}
		for s.waiting.count.Load() == 0 {
			runtime.Gosched()
		}
		if err := u.Set(access.Password("all")); err != nil {
			t.Fatal(err)
		}
		all.want("RPUSH orders:l x", "1")
		if _, err := io.ReadAll(p.r); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		all.want("LLEN orders:l", "1")
		all.want("DEL orders:l", "1")
		for s.waiting.count.Load() > 0 {
			runtime.Gosched()
		}
		if err := u.Set(shop, access.Password("all")); err != nil {
			t.Fatal(err)
		}
	}
	for got := all.do("CLIENT LIST"); strings.Contains(got, "user=shop"); got = all.do("CLIENT LIST") {
	}
	all.want("GET orders:after", "nil")
}

// A connection that is still open when its user has gone carries out nothing, and gets nothing that it waits for.
func TestRevokedConnectionDoesNothing(t *testing.T) {
	u := users(t, shop, access.Password("all"))
	s, address := newServer(t, func(s *Server) { s.Access = u })
	all := dial(t, address)
	all.want("AUTH all", "OK")
	open := func() *peer { // which is not closed when its user has gone
		p := dial(t, address)
		p.want("AUTH shop", "OK")
		p.do("CLIENT INFO")
		list := s.all()
		list[len(list)-1].stays()
		return p
	}
	p, waits := open(), open()
	waits.send("BLPOP orders:l 0")
	for s.waiting.count.Load() == 0 {
		runtime.Gosched()
	}
	if err := u.Set(access.Password("all")); err != nil {
		t.Fatal(err)
	}
	all.want("RPUSH orders:l a", "1")
	all.want("LLEN orders:l", "1")
	p.want("INCR orders:n", "(error) NOAUTH The user has other rights now.")
	if _, err := p.r.ReadByte(); err != io.EOF {
		t.Error(err)
	}
	all.want("GET orders:n", "nil")
}

// Requests that have arrived are not carried out after CLIENT KILL has closed the connection.
func TestNothingBehindKill(t *testing.T) {
	s, address := newServer(t)
	other, p := dial(t, address), dial(t, address)
	for range 20 {
		p.want("CLIENT SETNAME x", "OK")
		id := p.do("CLIENT ID")
		p.send("BLPOP l 0")
		for range 100 {
			p.send("INCR n")
		}
		for s.waiting.count.Load() == 0 {
			runtime.Gosched()
		}
		other.want("CLIENT KILL ID "+id, "1")
		for strings.Contains(other.do("CLIENT LIST"), "name=x") {
		}
		other.want("GET n", "nil")
		p = dial(t, address)
	}
}

// The walks of one user do not end those of another.
func TestCursorsByUser(t *testing.T) {
	s, address := newServer(t, func(s *Server) {
		s.Access = users(t, access.User{Name: "alice", Tokens: []string{access.Hash("alice")}, Write: []string{"a"}},
			access.User{Name: "bob", Tokens: []string{access.Hash("bob")}, Write: []string{"b"}})
	})
	for i := range 3 {
		for _, name := range []string{"a", "b"} {
			if err := s.DB.Raw().Set(fmt.Appendf(nil, "%s:%d", name, i), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	a, b := dial(t, address), dial(t, address)
	a.want("AUTH alice alice", "OK")
	b.want("AUTH bob bob", "OK")
	first := b.do("SCAN 0 MATCH b:* COUNT 1")
	var cursor string
	if _, err := fmt.Sscanf(first, "[%q [\"b:0\"]]", &cursor); err != nil {
		t.Fatal(first, err)
	}
	for range command.MaxCursors + 1 {
		a.send("SCAN 0 MATCH a:* COUNT 1")
		a.read()
	}
	a.want("SCAN "+cursor+" MATCH a:*", "(error) ERR invalid cursor: it is not known any more, begin again with 0")
	b.want("SCAN "+cursor+" MATCH b:*", `["0" ["b:1" "b:2"]]`)
}
