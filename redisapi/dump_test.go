package redisapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal"
)

// dumpable are requests that make keys of all types, short and long.
func dumpable() (requests []string) {
	list := []string{"SET s text", "SET int 12345", "SET empty \"\"", "SET bytes \"\\x00\\xff\\r\\n\"", "SET long " + strings.Repeat("abc", 30_000)}
	for _, n := range []int{1, 5, 700} {
		var elements, fields, scores, ints strings.Builder
		for i := range n {
			fmt.Fprintf(&elements, " %d e%d", i*i*i, i)
			fmt.Fprintf(&fields, " f%d v%d", i, i)
			fmt.Fprintf(&scores, " %d.5 m%d", i-3, i)
			fmt.Fprintf(&ints, " %d", i*70_000-5)
		}
		list = append(list, fmt.Sprintf("RPUSH l%d%s", n, &elements), fmt.Sprintf("HSET h%d%s", n, &fields), fmt.Sprintf("ZADD z%d%s", n, &scores),
			fmt.Sprintf("SADD m%d%s", n, &elements), fmt.Sprintf("SADD ints%d%s", n, &ints))
	}
	return append(list, "ZADD inf inf a -inf b", "RPUSH wide "+strings.Repeat("w", 20_000)+" x")
}

// contents is what a key holds, in an order.
func (p *peer) contents(key string) string {
	switch kind := p.do("TYPE " + key); kind {
	case "string":
		return p.do("GET " + key)
	case "list":
		return p.do("LRANGE " + key + " 0 -1")
	case "zset":
		return alike(p.do("ZRANGE "+key+" 0 -1 WITHSCORES"), true)
	case "set":
		return alike(p.do("SMEMBERS "+key), false)
	case "hash":
		return alike(p.do("HGETALL "+key), false)
	default:
		return kind
	}
}

// carry dumps all keys at one peer, and restores them under another name at the other.
func carry(t *testing.T, from, to *peer) {
	t.Helper()
	for _, request := range dumpable() {
		if got := from.do(request); strings.HasPrefix(got, "(error)") {
			t.Fatal(got)
		}
		key := strings.Fields(request)[1]
		dump := from.do("DUMP " + key)
		if got := to.do("RESTORE copy:" + key + " 0 " + dump + " REPLACE"); got != "OK" {
			t.Errorf("%s: %s", key, got)
		}
		if got, want := to.contents("copy:"+key), from.contents(key); got != want {
			t.Errorf("%s: %.200s, want %.200s", key, got, want)
		}
	}
}

// fillStream makes a stream of many nodes.
func (p *peer) fillStream() {
	p.do("DEL s")
	for i := range 700 {
		p.do(fmt.Sprintf("XADD s %d-%d f%d v g %s", i/7+1, i%7+1, i/90, strings.Repeat("w", max(1, i%100*i-60_000))))
	}
	p.do("XGROUP CREATE s g 0")
	p.do("XREADGROUP GROUP g c COUNT 200 STREAMS s >")
	p.do("XDEL s 1-1 20-1")
	p.do("XACK s g 2-1")
}

func TestDumpsAreRestored(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	carry(t, p, p)
	p.fillStream()
	p.want("RESTORE restored 0 "+p.do("DUMP s"), "OK")
	if got, want := p.full("restored"), p.full("s"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	p.want("EXPIRE l1 1000", "1")
	dump := p.do("DUMP l1")
	p.want("RESTORE h5 5000 "+dump+" REPLACE", "OK") // another type was there
	p.want("TYPE h5", "list")
	p.want("TTL h5", "5")
	p.want("RESTORE z5 1 "+dump+" ABSTTL REPLACE", "OK") // which has passed
	p.want("EXISTS z5", "0")
}

// What this server dumps Redis restores, and the other way round.
func TestDumpsOfRedis(t *testing.T) {
	theirs := redisServer(t)
	_, ours := newServer(t)
	carry(t, dial(t, ours), dial(t, theirs))
	dial(t, theirs).do("FLUSHALL")
	carry(t, dial(t, theirs), dial(t, ours))
	a, b := dial(t, theirs), dial(t, ours)
	a.fillStream()
	b.fillStream()
	dumpsAlike(t, a, b)
}

// What a typed map would not read is refused.
func TestRestoreJudges(t *testing.T) {
	s, address := newServer(t)
	typed(t, s)
	p := dial(t, address)
	p.do("SET plain text")
	p.do("RPUSH list a")
	for _, key := range []string{"plain", "list"} {
		if got := p.do("RESTORE users:x 0 " + p.do("DUMP "+key)); !strings.HasPrefix(got, "(error) ERR") {
			t.Errorf("%s: %s", key, got)
		}
	}
	if got := p.do("SORT list ALPHA STORE users:x"); !strings.HasPrefix(got, "(error) ERR") {
		t.Error(got)
	}
	p.want("EXISTS users:x", "0")
}

// typed opens a map of structs, users, with an entry.
func typed(t *testing.T, s *Server) {
	type user struct{ Name string }
	users, err := copal.OpenMap[string, user](s.DB, "users")
	if err == nil {
		err = users.Set("ada", user{"Ada"})
	}
	if err != nil {
		t.Fatal(err)
	}
}
