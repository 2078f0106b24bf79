package redisapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// unchanging has requests that change nothing, each after the requests that make its keys, which are
// k, l and the stream x.
var unchanging = []string{
	"del k", "del k l", "unlink k", "set k a; set k b NX", "set k b XX", "set k a; set k b IFEQ c", "set k a; setnx k b",
	"set k a; msetnx l b k c", "set k a; msetex 1 k b NX", "msetex 1 k b XX",
	"getdel k", "delifeq k a", "set k a; delifeq k b", "delex k", "set k a; delex k IFEQ b", "set k a; delex k IFNE a",
	"set k a; getex k", "set k a; getex k PERSIST", "getex k EX 100", "getex k PERSIST",
	"set k 5; incrby k 0", "set k 5 EX 1000; incrby k 0", "set k 5; decrby k 0", "set k 0.5; incrbyfloat k 0", "set k -5; incrbyfloat k 0e0",
	`set k a; append k ""`, `setrange k 5 ""`, `set k abc; setrange k 0 ""`, "set k abc; setrange k 1 bc", "set k abc EX 1000; setrange k 0 abc",
	"set k a; setbit k 0 0", "set k a; setbit k 1 1", "set k abc EX 1000; setbit k 15 0",
	"set k abc; bitfield k set u8 0 97", "set k abc; bitfield k incrby u8 0 0", "set k abc; bitfield k overflow fail set u8 0 999", "set k abc; bitfield k overflow fail incrby u8 0 200",
	"set k abc; bitfield k set u8 0 1 set u8 0 97", "bitfield k get u8 0", "bitop and k l",
	"pfadd k a; pfadd k a", "pfadd k a; pfadd k", "pfadd k a; pfmerge k", "pfadd k a b; pfadd l b; pfmerge k l",
	"set k a; persist k", "persist k", "expire k 10", "pexpire k 10", "expireat k 10", "pexpireat k 10",
	"set k a EX 100; expire k 10 NX", "set k a; pexpire k 10 XX", "set k a EX 100; expireat k 10 GT", "set k a EX 100; pexpireat k 9999999999999 LT",
	"set k a; rename k k", "set k a; renamenx k k", "set k a; set l b; renamenx k l", "set k a; set l b; copy k l", "copy k l", "move k 1",
	"sort k store l", "swapdb 3 3", "flushdb", "flushall",
	"sadd k a; sadd k a", "srem k a", "sadd k a; srem k b", "spop k", "sadd k a; spop k 0", "sadd k a; smove k k a", "sadd k a; smove k l b", "smove k l a",
	"sinterstore k l", "sunionstore k l", "sdiffstore k l",
	"hset k f a; hsetnx k f b", "hset k f a; copal.swap k f ifeq b set c", "hset k f a; copal.swap k f set b", "copal.swap k f", "hset k f a; copal.swap k f ifeq a set a", "hdel k f", "hset k f a; hdel k g", "hset k f a; hgetdel k FIELDS 1 g", "hset k f 5; hincrby k f 0", "hset k f 0.5; hincrbyfloat k f 0",
	"lpushx k a", "rpushx k a", "lpop k", "rpop k", "rpush k a; lpop k 0", "rpush k a; rpop k 0", "rpush k a b; ltrim k 0 -1", "ltrim k 0 1",
	"rpush k a; linsert k before b c", "linsert k before b c", "rpush k a; lrem k 0 b", "lrem k 0 b", "lmove k l left left", "rpoplpush k l",
	"rpush k a; rpoplpush k k", "rpush k a; lmove k k left right", "rpush k a b; lmove k k left left", "rpush k a b; lmove k k right right",
	"rpush k a; blmove k k left right 0", "rpush k a; brpoplpush k k 0", "lmpop 1 k left",
	"blpop k 0.001", "brpop k 0.001", "blmove k l left left 0.001", "brpoplpush k l 0.001", "blmpop 0.001 1 k left", "bzpopmin k 0.001", "bzpopmax k 0.001", "bzmpop 0.001 1 k min",
	"zadd k 1 a; zadd k 1 a", "zadd k 1 a; zadd k 1 a 1 a", "zadd k 1 a; zadd k nx 2 a", "zadd k xx 2 a", "zadd k 1 a; zadd k gt 0 a", "zadd k 1 a; zadd k lt 2 a", "zadd k 1 a; zadd k incr 0 a", "zadd k 0 a; zadd k -0 a",
	"zadd k 1 a; zincrby k 0 a", "zrem k a", "zadd k 1 a; zrem k b", "zpopmin k", "zpopmax k", "zadd k 1 a; zpopmin k 0", "zmpop 1 k min",
	"zadd k 1 a; zremrangebyrank k 1 2", "zadd k 1 a; zremrangebyscore k 2 3", "zadd k 1 a; zremrangebylex k (a +",
	"zrangestore k l 0 -1", "zunionstore k 1 l", "zinterstore k 1 l", "zdiffstore k 1 l",
	"geoadd k 1 1 a; geoadd k 1 1 a", "geoadd k xx 1 1 a", "geoadd k 1 1 a; geoadd k nx 2 2 a", "geosearchstore k l fromlonlat 1 1 byradius 1 m",
	"georadius l 1 1 1 m store k", "geoadd l 1 1 a; georadiusbymember l a 1 m",
	"xadd k nomkstream * a b", "xadd x 1 a b; xtrim x maxlen 5", "xtrim k maxlen 0", "xadd x 1 a b; xdel x 2", "xdel k 1", "xadd x 1 a b; xsetid x 1",
	"xgroup create x g 0 mkstream; xack x g 1", "xack x g 1", "xgroup create x g 0 mkstream; xgroup destroy x h", "xgroup create x g 0 mkstream; xgroup createconsumer x g c; xgroup createconsumer x g c",
	"xgroup create x g 0 mkstream; xgroup delconsumer x g c", "xgroup create x g 0 mkstream; xgroup create x g 0",
}

// A request that changes nothing writes no record. So it breaks no WATCH, wakes no client, and is
// not sent to those that listen or track.
func TestNoChangeWritesNothing(t *testing.T) {
	s, address := newServer(t)
	a, watching, listening, tracking := dial(t, address), dial(t, address), dial(t, address), dial(t, address)
	a.want("CONFIG SET notify-keyspace-events KA", "OK")
	listening.do("PSUBSCRIBE __keyspace@0__:*")
	tracking.do("HELLO 3")
	tracking.want("CLIENT TRACKING ON BCAST", "OK")
	seen := map[string]bool{}
	for _, line := range unchanging {
		requests := strings.Split(line, "; ")
		for _, r := range requests[:len(requests)-1] {
			if reply := a.do(r); strings.HasPrefix(reply, "(error)") {
				t.Errorf("%s: %s: %s", line, r, reply)
			}
		}
		last := requests[len(requests)-1]
		cmd, err := table.Find(bytesOf(strings.Fields(last)))
		if err != nil {
			t.Fatal(err)
		}
		seen[cmd.FullName()] = true
		watching.do("WATCH k l x")
		watching.do("MULTI")
		watching.do("GET other")
		empties := strings.HasPrefix(cmd.Name, "flush") // an empty store
		if !empties {
			a.do("SET before 1")
		}
		before := s.written()
		if reply := a.do(last); strings.HasPrefix(reply, "(error) ERR ") && reply != "(error) "+string(command.ErrNoKey) {
			t.Errorf("%s: %s", line, reply)
		}
		if n := s.written() - before; n != 0 {
			t.Errorf("%s: %d records", line, n)
		}
		if got := watching.do("EXEC"); got != "[nil]" {
			t.Errorf("%s: EXEC of a client that watches: %s", line, got)
		}
		a.do("SET after 1")
		for name, p := range map[string]*peer{"listens": listening, "tracks": tracking} {
			begun := empties
			for {
				got := p.read()
				begun = begun || strings.Contains(got, "before")
				if begun && (strings.Contains(got, `"k"`) || strings.Contains(got, ":k\"")) {
					t.Errorf("%s: a client that %s gets %s", line, name, got)
				}
				if strings.Contains(got, "after") {
					break
				}
			}
		}
		a.do("FLUSHALL")
	}
	for _, cmd := range table.All() {
		if name := cmd.FullName(); cmd.Flags&command.Write != 0 && len(cmd.Subs) == 0 && !seen[name] && !slices.Contains(alwaysWrite, name) {
			t.Errorf("no case for %s", name)
		}
	}
}

func bytesOf(words []string) (list [][]byte) {
	for _, w := range words {
		list = append(list, []byte(w))
	}
	return list
}

// alwaysWrite are the commands that write whenever they succeed, as the client asks for a write and
// not for a change. The last three note once a second that a consumer was seen.
var alwaysWrite = strings.Fields("setex psetex getset mset incr decr hset hmset lpush rpush lset restore restore-asking xgroup|setid copal.typed copal.delrange xreadgroup xclaim xautoclaim")
