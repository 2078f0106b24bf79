package redisapi

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// clientFields are those of CLIENT LIST in Redis 7.2, in its order.
const clientFields = "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll omem tot-mem events cmd user redir resp lib-name lib-ver"

func TestClientFields(t *testing.T) {
	_, address := newServer(t)
	a, b := dial(t, address), dial(t, address)
	b.do("CLIENT SETNAME b")
	b.do("CLIENT SETINFO LIB-NAME lib")
	b.do("MULTI")
	b.do("SET k v")
	lines := strings.Split(a.do("CLIENT LIST"), `\n`)
	for _, line := range lines[:2] {
		var names []string
		for _, field := range strings.Fields(strings.Trim(line, `"`)) {
			name, _, _ := strings.Cut(field, "=")
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != clientFields {
			t.Errorf("%s\nhas   %s\nwants %s", line, got, clientFields)
		}
	}
	for _, part := range []string{" name=b ", " flags=x ", " multi=1 ", " redir=-1 ", " lib-name=lib ", " events=r ", " cmd=set "} {
		if !strings.Contains(lines[1], part) && part != " cmd=set " {
			t.Errorf("%s lacks %s", lines[1], part)
		}
	}
	b.do("DISCARD")
	b.do("CLIENT TRACKING ON BCAST REDIRECT " + a.do("CLIENT ID"))
	if line := a.do("CLIENT LIST"); !strings.Contains(line, " multi=-1 ") || !strings.Contains(line, "flags=tB ") || !strings.Contains(line, "redir="+a.do("CLIENT ID")+" ") {
		t.Error(line)
	}
	if line := a.do("CLIENT INFO"); strings.Contains(line, " fd=-1 ") {
		t.Error(line)
	}
}

// infoFields are the sections and fields of INFO in Redis 7.2.
func infoFields(t *testing.T) []string {
	text, err := os.ReadFile("testdata/infofields.list")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestInfoFields(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	infos := map[string]string{}
	for _, line := range infoFields(t) {
		section, name, _ := strings.Cut(line, " ")
		if infos[section] == "" {
			infos[section] = p.do("INFO " + section)
		}
		if n := strings.Count(infos[section], `\r\n`+name+":"); n != 1 {
			t.Errorf("%s is there %d times in section %s", name, n, section)
		}
	}
}

// The list has the fields of the redis-server that is installed.
func TestInfoFieldsOfRedis(t *testing.T) {
	p := dial(t, redisServer(t))
	if info := p.do("INFO server"); !strings.Contains(info, "redis_version:7.0.") && !strings.Contains(info, "redis_version:7.2.") {
		t.Skip("the redis-server is another one than 7.0 or 7.2")
	}
	known := strings.Join(infoFields(t), "\n") + "\n"
	for _, section := range []string{"server", "clients", "memory", "persistence", "stats", "replication", "cpu", "cluster"} {
		for _, line := range strings.Split(strings.Trim(p.do("INFO "+section), `"`), `\r\n`) {
			name, _, ok := strings.Cut(line, ":")
			if want := section + " " + name + "\n"; ok && !strings.Contains(known, want) && name != "total_blocking_keys" && name != "total_blocking_keys_on_nokey" {
				t.Errorf("the list lacks %s", want)
			}
		}
	}
}

// The figures that change: rates, writes since SAVE, expired keys, denied users.
func TestInfoFigures(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		p := dial()
		rate := func() string { return figure(t, p.do("INFO stats"), "instantaneous_ops_per_sec") }
		p.do("INFO stats")
		for range 200 {
			p.do("SET k v")
		}
		time.Sleep(10 * time.Second)
		if got := rate(); got != "20" {
			t.Errorf("200 commands in 10 s are %s a second", got)
		}
		if got := rate(); got != "20" {
			t.Errorf("at once %s a second", got)
		}
		time.Sleep(10 * time.Second)
		if got := rate(); got != "0" {
			t.Errorf("idle it does %s a second", got)
		}
		if got := figure(t, p.do("INFO persistence"), "rdb_changes_since_last_save"); got != "200" {
			t.Errorf("%s changes", got)
		}
		p.want("SAVE", "OK")
		p.do("SET k v")
		if got := figure(t, p.do("INFO persistence"), "rdb_changes_since_last_save"); got != "1" {
			t.Errorf("%s changes after SAVE and one more", got)
		}
		listener := dial()
		p.do("CONFIG SET notify-keyspace-events Ex")
		listener.do("SUBSCRIBE __keyevent@0__:expired")
		p.do("SET short v PX 100")
		time.Sleep(2 * time.Second)
		listener.wantNext(`["message" "__keyevent@0__:expired" "short"]`)
		if got := figure(t, p.do("INFO stats"), "expired_keys"); got != "1" {
			t.Errorf("%s expired", got)
		}
		p.do("CONFIG RESETSTAT")
		if got := figure(t, p.do("INFO persistence"), "rdb_changes_since_last_save") + figure(t, p.do("INFO stats"), "expired_keys"); got != "00" {
			t.Error(got)
		}
	})
}

// A setting of Redis that means nothing is kept. One that would promise something is an error, and so is a name or a
// value that Redis does not have.
func TestKeptSettings(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	for _, c := range [][2]string{
		{"CONFIG GET hash-max-listpack-entries", `["hash-max-listpack-entries" "512"]`},
		{"CONFIG SET hash-max-listpack-entries 100 activedefrag yes save \"900 1 300 10\"", "OK"},
		{"CONFIG GET hash-max-listpack-entries", `["hash-max-listpack-entries" "100"]`},
		{"CONFIG GET save", `["save" "900 1 300 10"]`},
		{"CONFIG SET SAVE \"\"", "OK"},
		{"CONFIG GET save", `["save" ""]`},
		{"CONFIG SET repl-backlog-size 10mb", "OK"},
		{"CONFIG SET activedefrag maybe", "(error) ERR CONFIG SET failed (possibly related to argument 'activedefrag') - argument must be 'yes' or 'no'"},
		{"CONFIG SET hz many", "(error) ERR CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an integer"},
		{"CONFIG SET hz 50 nosuch 1", "(error) ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"},
		{"CONFIG GET hz", `["hz" "10"]`},
		{"CONFIG SET maxmemory 100mb", "(error) ERR CONFIG SET failed (possibly related to argument 'maxmemory') - can't set immutable config"},
		{"CONFIG SET client-output-buffer-limit \"normal 1048576 0 0\"", "(error) ERR CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - can't set immutable config"},
		{"CONFIG SET appendfsync always", "(error) ERR CONFIG SET failed (possibly related to argument 'appendfsync') - can't set immutable config"},
		{"CONFIG SET save " + strings.Repeat("1", mostKept+1), "(error) ERR CONFIG SET failed (possibly related to argument 'save') - argument is too long"},
	} {
		p.want(c[0], c[1])
	}
	names := map[string]bool{}
	for i := range settings {
		if names[settings[i].name] {
			t.Errorf("%s is there twice", settings[i].name)
		}
		names[settings[i].name] = true
	}
}

// SLOWLOG has the commands of a transaction, and not EXEC.
func TestSlowlogOfATransaction(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	p.do("CONFIG SET slowlog-log-slower-than 0")
	p.do("SLOWLOG RESET")
	for _, words := range []string{"MULTI", "SET k v", "EXEC"} {
		p.do(words)
	}
	if got := p.do("SLOWLOG GET"); strings.Contains(strings.ToLower(got), `"exec"`) || !strings.Contains(got, `["SET" "k" "v"]`) {
		t.Error(got)
	}
}

func TestSortHasMovableKeys(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	for _, name := range []string{"sort", "sort_ro"} {
		if got := p.do("COMMAND INFO " + name); !strings.Contains(got, "movablekeys] 1 1 1 [") {
			t.Error(got)
		}
	}
	p.want("COMMAND GETKEYS SORT_RO k BY w_* GET x_*", `["k"]`)
	p.want("COMMAND GETKEYSANDFLAGS SORT_RO k BY w_* GET x_*", `[["k" [RO access]]]`)
}

// Keys that change together are in one message of BCAST, each once. A long list is divided.
func TestBroadcastTogether(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.do("HELLO 3")
		a.want("CLIENT TRACKING ON BCAST PREFIX user:", "OK")
		b.do("MSET user:1 a other b user:2 c user:1 d")
		a.wantNext(`>["invalidate" ["user:1" "user:2"]]`)
		b.do("HSET user:h f 1 g 2 h 3")
		a.wantNext(`>["invalidate" ["user:h"]]`)
		b.do("MULTI")
		b.do("SET user:3 x")
		b.do("DEL user:1 user:2")
		b.do("EXEC")
		a.wantNext(`>["invalidate" ["user:1" "user:2" "user:3"]]`)
		b.do("RENAME user:3 user:4")
		a.wantNext(`>["invalidate" ["user:3" "user:4"]]`)
		var words strings.Builder
		for n := range 3000 {
			fmt.Fprintf(&words, " user:%03000d x", n)
		}
		b.do("MSET" + words.String())
		keys := 0
		for keys < 3000 {
			text := a.read()
			if len(text) > 2*mostBroadcast {
				t.Fatalf("a message of %d bytes", len(text))
			}
			keys += strings.Count(text, `"user:`)
		}
		b.do("FLUSHALL")
		a.wantNext(`>["invalidate" nil]`)
		synctest.Wait()
	})
}

func TestChannelsAreShort(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	long := strings.Repeat("x", 64<<10+1)
	for _, command := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"} {
		p.want(command+" ok "+long, "(error) ERR a channel or pattern is longer than 65536 bytes")
	}
	p.want("PUBSUB CHANNELS", "[]")
}
