package redisapi

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

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

// contents returns the value of a key, in sorted order if its type has none.
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

// Redis restores the dumps of this server, and this server those of Redis.
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

// RESTORE and SORT refuse to store a value that a typed map could not read.
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

// Clients that wait for entries of a stream get the entries of a stream that RESTORE puts in its
// place.
func TestRestoreServesReaders(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		read, grouped, lost, control := dial(), dial(), dial(), dial()
		for _, words := range []string{"XADD from 9-1 f v", "XGROUP CREATE from g 0", "XADD s 5-1 f v", "XGROUP CREATE s g $", "XGROUP CREATE s other $"} {
			control.do(words)
		}
		dump := control.do("DUMP from")
		read.begin("XREAD BLOCK 0 STREAMS s $")
		grouped.begin("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
		lost.begin("XREADGROUP GROUP other c BLOCK 0 STREAMS s >")
		control.want("RESTORE s 5000 "+dump+" REPLACE", "OK")
		read.wantNext(`[["s" [["9-1" ["f" "v"]]]]]`)
		grouped.wantNext(`[["s" [["9-1" ["f" "v"]]]]]`)
		lost.wantNext("(error) NOGROUP No such key 's' or consumer group 'other' in XREADGROUP with GROUP option")
		control.want("PTTL s", "5000")
		// A restored stream without new entries serves no client.
		read.begin("XREAD BLOCK 0 STREAMS s 9-1")
		control.want("RESTORE s 0 "+dump+" REPLACE", "OK")
		control.want("PTTL s", "-1")
		synctest.Wait()
		if s.waiting.count.Load() != 1 {
			t.Error("a client is served")
		}
		control.want("XADD s 9-2 f w", `"9-2"`)
		read.wantNext(`[["s" [["9-2" ["f" "w"]]]]]`)
		// A deadline in the past deletes the key, and a client that waits for entries of a group
		// gets an error.
		grouped.begin("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
		grouped.wantNext(`[["s" [["9-1" ["f" "v"]] ["9-2" ["f" "w"]]]]]`)
		grouped.begin("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
		control.want("RESTORE s 1 "+dump+" ABSTTL REPLACE", "OK")
		grouped.wantNext("(error) NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option")
		control.want("EXISTS s", "0")
	})
}

// A dump of a stream with one changed byte is refused, or restores a stream that all commands
// accept. Such a stream has the same contents after another DUMP and RESTORE.
func TestRestoreFlippedStreams(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	for _, words := range []string{"XADD s 5-1 f v g w", "XADD s 5-2 f 12 g 4000", "XADD s 7-1 other v", "XADD s 18446744073709551610-3 f v", "XGROUP CREATE s g 5-2",
		"XGROUP CREATE s h 0", "XREADGROUP GROUP h c COUNT 2 STREAMS s >", "XREADGROUP GROUP h d COUNT 1 STREAMS s >", "XDEL s 7-1"} {
		if got := p.do(words); strings.HasPrefix(got, "(error)") {
			t.Fatal(words, got)
		}
	}
	text, _ := strconv.Unquote(p.do("DUMP s"))
	jones := crc64.MakeTable(0x95ac9329ac4bc9b5)
	taken := 0
	for i := range len(text) - 10 {
		for _, x := range []byte{0x01, 0x02, 0x40, 0x80, 0xff, 0x7f} {
			b := []byte(text[:len(text)-8])
			b[i] ^= x
			b = binary.LittleEndian.AppendUint64(b, ^crc64.Update(^uint64(0), jones, b))
			if !strings.HasPrefix(p.do("RESTORE r 0 "+strconv.Quote(string(b))+" REPLACE"), "OK") {
				continue
			}
			if p.do("TYPE r") != "stream" {
				continue
			}
			taken++
			full := p.do("XINFO STREAM r FULL COUNT 0")
			dump := p.do("DUMP r")
			if got := p.do("RESTORE again 0 " + dump + " REPLACE"); got != "OK" {
				t.Errorf("byte %d, %x: its dump: %s", i, x, got)
			} else if again := p.do("XINFO STREAM again FULL COUNT 0"); again != full {
				t.Errorf("byte %d, %x: %s\nagain %s", i, x, full, again)
			}
			for _, words := range []string{
				"XRANGE r - +", "XREVRANGE r + -", "XINFO GROUPS r", "XINFO CONSUMERS r h",
				"XPENDING r h", "XPENDING r h - + 10", "XREADGROUP GROUP h e STREAMS r >", "XAUTOCLAIM r h z 0 0",
				"XTRIM r MAXLEN 1", "XADD r * f v", "XINFO STREAM r FULL", "XGROUP DESTROY r h", "DUMP r",
			} {
				if got := p.do(words); strings.HasPrefix(got, "(error)") && !strings.Contains(got, "NOGROUP") && !strings.Contains(got, "no such key") && !strings.Contains(got, "has exhausted the last possible ID") {
					t.Errorf("byte %d, %x: %s: %s", i, x, words, got)
				}
			}
		}
	}
	if taken == 0 {
		t.Error("no stream was restored")
	}
}
