package redisapi

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/redisapi/internal/server"

	"github.com/copaldb/copal/redisapi/internal/keys"
)

// figure is the value of a line of INFO.
func figure(t *testing.T, info, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(info, `\r\n`+name+":")
	if !ok {
		t.Fatalf("no %s in %s", name, info)
	}
	value, _, _ := strings.Cut(rest, `\r\n`)
	return value
}

func TestInfo(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.do("SET k v")
		a.do("GET k")
		a.do("GET none")
		a.do("INCR k")
		a.do("NOSUCH")
		a.do("MULTI")
		a.do("SET k w")
		a.do("EXEC")
		b.begin("BLPOP l 0")
		info := a.do("INFO everything")
		for name, want := range map[string]string{
			"redis_version": "7.2.0", "loading": "0", "role": "master", "maxmemory_policy": "noeviction", "keyspace_hits": "1", "keyspace_misses": "1",
			"connected_clients": "2", "blocked_clients": "1", "errorstat_ERR": "count=2", "total_error_replies": "2", "keys": "1", "durability": "write",
			"db0": "keys=1,expires=0,avg_ttl=0", "cluster_enabled": "0",
		} {
			if got := figure(t, info, name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		for name, want := range map[string]string{"cmdstat_get": "calls=2,", "cmdstat_set": "calls=2,", "cmdstat_incr": "calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1"} {
			if got := figure(t, info, name); !strings.HasPrefix(got, want) {
				t.Errorf("%s is %s", name, got)
			}
		}
		for request, has := range map[string]string{"INFO": "# Server # Clients # Keyspace # Copal", "INFO server": "# Server", "INFO STATS memory": "# Memory # Stats", "INFO all": "# Server # Commandstats"} {
			text := a.do(request)
			for _, each := range strings.Split(has, " # ") {
				if !strings.Contains(text, "# "+strings.TrimPrefix(each, "# ")) {
					t.Errorf("%s has no %s", request, each)
				}
			}
			if strings.Contains(text, "# Commandstats") != (request == "INFO all") {
				t.Errorf("%s: %s", request, text)
			}
		}
		a.want("CONFIG RESETSTAT", "OK")
		info = a.do("INFO everything")
		if got := figure(t, info, "keyspace_hits") + figure(t, info, "total_error_replies"); got != "00" {
			t.Error(got)
		}
		b.nc.Close()
	})
}

func TestSlowlog(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.want("CLIENT SETNAME me", "OK")
		a.want("DEBUG SLEEP 0.5", "OK")
		a.begin("BLPOP l 0")
		time.Sleep(time.Second)
		b.do("RPUSH l x")
		a.wantNext(`["l" "x"]`) // waiting does not count
		at := time.Now().Unix() - 1
		a.want("SLOWLOG LEN", "1")
		a.want("SLOWLOG GET", fmt.Sprintf(`[[0 %d 500000 ["DEBUG" "SLEEP" "0.5"] "pipe" "me"]]`, at))
		a.want("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2", "OK")
		long := strings.Repeat("x", 200)
		a.do("SET k " + long)
		a.do("DEL " + strings.Repeat("k ", 39))
		list := a.do("SLOWLOG GET 2")
		if !strings.Contains(list, `"`+long[:128]+`... (72 more bytes)"`) || !strings.Contains(list, `"... (9 more arguments)"`) || strings.Contains(list, "SLEEP") {
			t.Error(list)
		}
		a.do("AUTH secret")
		if list := a.do("SLOWLOG GET -1"); strings.Contains(list, "secret") {
			t.Error(list)
		}
		a.want("CONFIG SET slowlog-log-slower-than 100000 slowlog-max-len 10", "OK")
		b.want("SET notanumber x", "OK")
		for _, request := range []string{"CONFIG RESETSTAT", "MULTI", "DEBUG SLEEP 0.25", "INCR notanumber", "EXEC"} {
			b.do(request)
		}
		if list := a.do("SLOWLOG GET"); !strings.Contains(list, ` 250000 ["DEBUG" "SLEEP" "0.25"]`) {
			t.Errorf("a command of a transaction is not there: %s", list)
		}
		stats := a.do("INFO commandstats")
		for name, want := range map[string]string{"cmdstat_debug|sleep": "calls=1,usec=250000,", "cmdstat_incr": "calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1"} {
			if got := figure(t, stats, name); !strings.HasPrefix(got, want) {
				t.Errorf("%s is %s", name, got)
			}
		}
		a.want("CONFIG SET slowlog-log-slower-than -1", "OK")
		a.want("SLOWLOG RESET", "OK")
		a.do("PING")
		a.want("SLOWLOG LEN", "0")
	})
}

func TestMonitor(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.want("MONITOR", "OK")
		now := fmt.Sprintf("%d.%06d [0 pipe] ", time.Now().Unix(), time.Now().Nanosecond()/1000)
		b.do("SET k \"a\\n\\x00\\\"b\"")
		a.wantNext(now + `"SET" "k" "a\n\x00\"b"`)
		b.do("AUTH secret")
		b.do("CONFIG GET save")
		b.do("MULTI")
		a.wantNext(now + `"MULTI"`)
		b.do("GET k")
		b.do("EXEC")
		a.wantNext(now + `"GET" "k"`)
		a.wantNext(now + `"EXEC"`)
		b.do("MULTI")
		a.wantNext(now + `"MULTI"`)
		b.want("MONITOR", "(error) ERR Command not allowed inside a transaction")
		a.want("RESET", "RESET")
		a.want("PING", "PONG")
		if s.monitors.count.Load() != 0 {
			t.Error("there is a monitor")
		}
	})
}

func TestDebugIsOff(t *testing.T) {
	_, address := newServer(t, func(s *Server) { s.Debug = false })
	p := dial(t, address)
	for _, request := range []string{"DEBUG SLEEP 0", "DEBUG JMAP", "DEBUG RELOAD", "DEBUG OBJECT k"} {
		if got := p.do(request); !strings.HasPrefix(got, "(error) ERR DEBUG command not allowed.") {
			t.Errorf("%s: %s", request, got)
		}
	}
}

// Each command can describe itself, in both versions of the protocol.
func TestCommandsDescribeThemselves(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	p.want("COMMAND COUNT", fmt.Sprint(len(table.ByName)))
	for range 2 {
		for name := range table.ByName {
			if got := p.do("COMMAND INFO " + name); !strings.HasPrefix(got, `[["`+name+`" `) {
				t.Error(got)
			}
			if got := p.do("COMMAND DOCS " + name); !strings.Contains(got, `"summary"`) || !strings.Contains(got, `"`+name+`"`) {
				t.Error(got)
			}
		}
		list := p.do("COMMAND")
		docs := p.do("COMMAND DOCS")
		names := p.do("COMMAND LIST")
		for name := range table.ByName {
			if !strings.Contains(list, `["`+name+`" `) || !strings.Contains(docs, `"`+name+`"`) || !strings.Contains(names, `"`+name+`"`) {
				t.Errorf("%s is left out", name)
			}
		}
		p.do("HELLO 3")
	}
	if got := p.do(`COMMAND INFO config|get`); !strings.Contains(got, `"config|get" -3`) {
		t.Error(got)
	}
}

// A server alone is no cluster, whatever it is asked: a client that takes it for one connects to an address that may
// lead nowhere from its side.
func TestServerAloneIsNoCluster(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	for _, f := range table.Families {
		for _, cmd := range f.Rows {
			if f.Group != "cluster" {
				continue
			}
			requests := []string{cmd.Name}
			for _, sub := range cmd.Subs {
				requests = append(requests, cmd.Name+" "+sub.Name+strings.Repeat(" 1", max(sub.Arity-2, 0)))
			}
			for _, request := range requests {
				if len(cmd.Subs) > 0 && (request == cmd.Name || strings.HasSuffix(request, "help")) {
					continue
				}
				p.want(request, "(error) ERR This instance has cluster support disabled")
			}
		}
	}
	p.want("CONFIG GET cluster-enabled", `["cluster-enabled" "no"]`)
	for request, part := range map[string]string{"INFO cluster": `cluster_enabled:0\r\n`, "INFO server": `redis_mode:standalone\r\n`, "HELLO 2": `"mode" "standalone"`} {
		if got := p.do(request); !strings.Contains(got, part) {
			t.Errorf("%s: %s", request, got)
		}
	}
}

func TestClusterOfOne(t *testing.T) {
	const address = "copal.example:7379"
	s, listens := newServer(t, func(s *Server) { s.ClusterAddress = address })
	p := dial(t, listens)
	id := s.shared.ID
	host, port, _ := strings.Cut(address, ":")
	for request, part := range map[string]string{"INFO cluster": `cluster_enabled:1\r\n`, "INFO server": `redis_mode:cluster\r\n`, "HELLO 2": `"mode" "cluster"`, "CONFIG GET cluster-enabled": `"yes"`} {
		if got := p.do(request); !strings.Contains(got, part) {
			t.Errorf("%s: %s", request, got)
		}
	}
	for request, reply := range map[string]string{"READONLY": "OK", "READWRITE": "OK", "ASKING": "OK", "SELECT 0": "OK", "SELECT 1": "(error) ERR SELECT is not allowed in cluster mode",
		"MOVE a 1": "(error) ERR MOVE is not allowed in cluster mode", "SWAPDB 0 1": "(error) ERR SWAPDB is not allowed in cluster mode",
		"COPY a b DB 1": "(error) ERR Copying to another database is not allowed in cluster mode", "COPY a b DB 0": "0"} {
		p.want(request, reply)
	}
	p.want("CLUSTER MYID", `"`+id+`"`)
	p.want("CLUSTER SLOTS", `[[0 16383 ["`+host+`" `+port+` "`+id+`" []]]]`)
	p.want("CLUSTER NODES", `"`+id+` `+address+`@`+port+` myself,master - 0 0 1 connected 0-16383\n"`)
	for request, part := range map[string]string{"CLUSTER INFO": `cluster_state:ok\r\n`, "CLUSTER SHARDS": `["slots" [0 16383] "nodes" [["id" "` + id + `"`} {
		if got := p.do(request); !strings.Contains(got, part) {
			t.Errorf("%s: %s", request, got)
		}
	}
	for key, slot := range map[string]string{"foo": "12182", "{user1000}.following": "3443", "foo{}{bar}": "8363", "foo{{bar}}zap": "4015"} {
		p.want("CLUSTER KEYSLOT "+key, slot)
	}
	p.want("CLUSTER COUNTKEYSINSLOT 16384", "(error) ERR Invalid slot")
	p.want("CLUSTER COUNTKEYSINSLOT 0", "0")
	p.do("MSET a{x} 1 b{x} 2 c 3")
	slot := p.do("CLUSTER KEYSLOT x")
	p.want("CLUSTER COUNTKEYSINSLOT "+slot, "2")
}

func TestSavingAndCompacting(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		p := dial()
		began := time.Now().Unix()
		p.want("LASTSAVE", fmt.Sprint(began))
		p.want("TIME", fmt.Sprintf(`["%d" "%d"]`, began, time.Now().Nanosecond()/1000))
		time.Sleep(10 * time.Second)
		p.want("SAVE", "OK")
		p.want("LASTSAVE", fmt.Sprint(began+10))
		p.want("BGSAVE SCHEDULE", "Background saving started")
		for range 100 {
			p.do("SET k v")
		}
		p.want("BGREWRITEAOF", "Background append only file rewriting started")
		synctest.Wait()
		p.want("WAITAOF 1 0 0", "[1 0]")
		if figure(t, p.do("INFO persistence"), "aof_rewrite_in_progress") != "0" {
			t.Error("compaction goes on")
		}
		s.compacting.Store(true)
		p.want("BGREWRITEAOF", "(error) ERR Background append only file rewriting already in progress")
		s.compacting.Store(false)
	})
}

func TestMemoryUsage(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	p.do("SET s " + strings.Repeat("x", 1000))
	p.do("RPUSH l 1 2 3 4 5 6 7 8 9 10")
	p.do("HSET h f v")
	p.do("SADD m a b")
	p.do("ZADD z 1 a")
	for request, least := range map[string]int{"s": 1000, "l": 10 * keys.RecordBytes, "l SAMPLES 0": 10 * keys.RecordBytes, "l SAMPLES 3": 10 * keys.RecordBytes, "h": keys.RecordBytes, "m": 2 * keys.RecordBytes, "z": keys.RecordBytes} {
		var n int
		if _, err := fmt.Sscan(p.do("MEMORY USAGE "+request), &n); err != nil || n < least || n > 3*least+200 {
			t.Errorf("%s: %d, %v", request, n, err)
		}
	}
	for _, request := range []string{"MEMORY STATS", "MEMORY DOCTOR", "LATENCY DOCTOR", "OBJECT HELP"} {
		if got := p.do(request); strings.HasPrefix(got, "(error)") {
			t.Error(got)
		}
	}
}

// A store that takes no writes any more says so.
func TestInfoOfAStoreThatRefusesWrites(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	const name = "aof_last_write_status"
	if got := figure(t, p.do("INFO persistence"), name); got != "ok" {
		t.Errorf("%s is %s", name, got)
	}
	if err := s.DB.Close(); err != nil {
		t.Fatal(err)
	}
	if got := figure(t, p.do("INFO persistence"), name); got != "err" {
		t.Errorf("%s is %s", name, got)
	}
}

func TestCommandsAboutCommands(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	p.do("HELLO 3")
	for request, reply := range map[string]string{
		"COMMAND GETKEYS LMPOP 5 a b LEFT":            "(error) ERR Invalid arguments specified for command",
		"COMMAND GETKEYS PING":                        "(error) ERR The command has no key arguments",
		"COMMAND GETKEYS LMPOP 2 a b LEFT":            `["a" "b"]`,
		"COMMAND LIST FILTERBY PATTERN client|geT*":   `["client|getname" "client|getredir"]`,
		"COMMAND LIST FILTERBY MODULE x":              "[]",
		"CLIENT KILL USER nobody":                     "(error) ERR No such user 'nobody'",
		"CLIENT LIST ID 0":                            `"txt:"`,
		"CLIENT TRACKING ON BCAST PREFIX a PREFIX ab": "(error) ERR Prefix 'a' overlaps with another provided prefix 'ab'. Prefixes for a single client must not overlap.",
	} {
		p.want(request, reply)
	}
	if list := p.do("COMMAND LIST"); !strings.HasPrefix(list, "[") || !strings.Contains(list, `"config|get"`) {
		t.Error(list)
	}
}

func TestMetrics(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a := dial()
		a.do("SET k v")
		a.do("GET k")
		a.do("GET none")
		a.do("INCR k")
		var b strings.Builder
		if err := s.WriteMetrics(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"copal_redis_clients 1", "copal_redis_connections_total 1", "copal_redis_hits_total 1", "copal_redis_misses_total 1",
			`copal_redis_commands_total{command="get"} 2`, `copal_redis_command_errors_total{command="get"} 0`, `copal_redis_command_errors_total{command="incr"} 1`,
			`copal_redis_command_duration_seconds_bucket{command="get",le="+Inf"} 2`, `copal_redis_command_duration_seconds_count{command="set"} 1`,
		} {
			if !strings.Contains(b.String(), "\n"+want+"\n") {
				t.Errorf("no line %s in\n%s", want, b.String())
			}
		}
	})
}

// An address that clients cannot reach is refused before the first of them comes.
func TestClusterAddressIsDefinite(t *testing.T) {
	for _, address := range []string{"", ":6379", "0.0.0.0:6379", "[::]:6379", "host", "host:0", "host:65536", "host:redis"} {
		if _, _, err := server.SplitAddress(address); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Server{ClusterAddress: ":6379"}).Serve(l); err == nil {
		t.Error("the server serves")
	}
}
