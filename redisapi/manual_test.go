package redisapi

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/redisapi/internal/command"
)

const manualIntro = `# The commands of Redis

The protocol of Redis, as [copal serve](command.md#serve) and package ` + "`redisapi`" + ` serve it. This page
is made of the command table. Names, arguments, replies and errors are those of Redis 7.2; the last
column has the differences. [The design](design/redis-server.md) has a page of its own.

- **A key** is a raw key of the store, of at most 64 KiB: ` + "`users:alice`" + ` is the entry "alice" of the
  map "users". Values of a typed map are shown as JSON. A write to such a map is JSON, too, and is
  stored as its own program would store it.
- **A field or member** has at most 65,500 bytes, the names of a group and a consumer together
  65,436. A longer one is an error in a write, and does not exist in a read. Elements of lists and
  values of fields have the bounds of Redis.
- **A database** other than 0, of which there are 15, is a map named after it: key "a" of database 1
  is the raw key db%3a1:a, and the entry "a" of the map "db:1". Database 0 is all other keys.
- **An OK** has the meaning of the connection's durability (` + "`CLIENT DURABILITY`" + `): the write is in the
  log, or on the disk. After an error the write has not happened, also after a crash. Only after a
  failed sync, or a failed look at the directory, is that unknown, and the error says so. ` + "`MISCONF`" + `
  means that the store refuses writes after a failure, and has the reason; ` + "`READONLY`" + ` means that it
  is open for reading alone.
- **A deadline** may be any of Redis, up to 2^63-1 ms after 1970. One in the last eight months of
  these 292 million years is kept as the end of the year before.
- **A user**, if the server has users, authenticates with ` + "`AUTH name token`" + ` or ` + "`AUTH token`" + `, and has
  rights to read and write maps. A key needs the right to its map. A key outside of maps, and a
  command about all keys, need the right to all maps.
- **Order**: fields of a hash and members of a set are in bytewise order.
- **A command** is atomic, whatever it reads and writes. ` + "`MULTI`" + ` and ` + "`EXEC`" + ` make one transaction of
  several.
- **A command that changes nothing** writes no record, and so it ends no ` + "`WATCH`" + `, wakes no client and
  sends no message: ` + "`SETBIT`" + ` of an equal bit, ` + "`SETRANGE`" + ` of equal bytes, ` + "`INCRBY key 0`" + `, ` + "`GETEX`" + ` with
  ` + "`PERSIST`" + ` of a key without a deadline, ` + "`LMOVE`" + ` that leaves the order of one list. In Redis some of these
  count as writes. Commands that are given the value or the deadline always write: ` + "`SET`" + `, ` + "`HSET`" + `,
  ` + "`LSET`" + `, ` + "`EXPIRE`" + `, and those that store a result.
- **A string is written as a whole** whenever a part of it changes, or its deadline: ` + "`APPEND`" + `, ` + "`SETRANGE`" + `,
  ` + "`SETBIT`" + `, ` + "`BITFIELD`" + `, ` + "`PFADD`" + `, ` + "`INCR`" + `, ` + "`EXPIRE`" + ` and ` + "`PERSIST`" + `. One bit of a string of 1 MiB is 1 MiB in
  the log. Many small changes are cheaper to the elements of a hash, list or set, and to several
  short strings. A deadline of one of these collections costs a short record.
`

const manualEvents = `
## Keyspace events

` + "`CONFIG SET notify-keyspace-events`" + ` chooses the classes of events, by the letters of Redis, and
` + "`__keyspace@0__:key`" + ` and ` + "`__keyevent@0__:event`" + ` are the channels. A command of this server has the
events of Redis, in Redis's order, once its changes can be read; the commands of ` + "`EXEC`" + ` have theirs
when all have happened. Changes by programs, by HTTP and by other servers of the store are named after
the kind of the change: ` + "`set`, `expire`, `persist`, `del`, `new`, `rename_from`, `rename_to`" + `, and for
elements ` + "`hset`, `hdel`, `sadd`, `srem`, `zadd`, `zrem`, `lpush`, `rpush`, `lpop`, `rpop`" + ` and those of
streams. So are all changes by a server whose store is on another machine, the changes of
` + "`COPAL.STREAM SET`" + ` and its transaction, and changes while 64 MiB of events wait to be sent. While
events are on, each writing command is a transaction, which costs a single ` + "`SET`" + ` some time.

The events differ from those of redis-server 7.0 in this:

`

// The commands of Redis 7.2, by its own COMMAND LIST.
var ofRedis = strings.Fields(`acl append asking auth bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop bitpos blmove blmpop blpop
	brpop brpoplpush bzmpop bzpopmax bzpopmin client cluster command config copy dbsize debug decr decrby del discard dump echo
	eval eval_ro evalsha evalsha_ro exec exists expire expireat expiretime failover fcall fcall_ro flushall flushdb function
	geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore get
	getbit getdel getex getrange getset hdel hello hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield
	hscan hset hsetnx hstrlen hvals incr incrby incrbyfloat info keys lastsave latency lcs lindex linsert llen lmove lmpop lolwut
	lpop lpos lpush lpushx lrange lrem lset ltrim memory mget migrate module monitor move mset msetnx multi object persist
	pexpire pexpireat pexpiretime pfadd pfcount pfdebug pfmerge pfselftest ping psetex psubscribe psync pttl publish pubsub
	punsubscribe quit randomkey readonly readwrite rename renamenx replconf replicaof reset restore restore-asking role rpop
	rpoplpush rpush rpushx sadd save scan scard script sdiff sdiffstore select set setbit setex setnx setrange shutdown sinter
	sintercard sinterstore sismember slaveof slowlog smembers smismember smove sort sort_ro spop spublish srandmember srem sscan
	ssubscribe strlen subscribe substr sunion sunionstore sunsubscribe swapdb sync time touch ttl type unlink unsubscribe
	unwatch wait waitaof watch xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange
	xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax
	zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank
	zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore`)

func manual() string {
	var b strings.Builder
	b.WriteString(manualIntro)
	for _, f := range table.Families {
		fmt.Fprintf(&b, "\n## %s\n\n| command | since | effect | differs from Redis |\n|---|---|---|---|\n", f.Title)
		for _, cmd := range f.Rows {
			rows := cmd.Subs
			if len(rows) == 0 {
				rows = []*command.Row{cmd}
			}
			for _, row := range rows {
				name := strings.ToUpper(strings.ReplaceAll(row.FullName(), "|", " "))
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, row.Since, row.Summary, row.Differs)
			}
		}
	}
	var missing []string
	for _, name := range ofRedis {
		if table.ByName[name] == nil {
			missing = append(missing, strings.ToUpper(name))
		}
	}
	b.WriteString(manualEvents)
	for _, o := range otherEvents {
		fmt.Fprintf(&b, "- %s.\n", o.manual)
	}
	fmt.Fprintf(&b, "\n## Missing commands\n\nThey are answered as unknown commands: %s.\n", strings.Join(missing, ", "))
	return b.String()
}

// TestManual compares docs/redis.md with the table. With COPAL_WRITE=1 it writes the page.
func TestManual(t *testing.T) {
	path := filepath.Join("..", "docs", "redis.md")
	if os.Getenv("COPAL_WRITE") == "1" {
		if err := os.WriteFile(path, []byte(manual()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != manual() {
		t.Error("docs/redis.md is not made of the table, from which COPAL_WRITE=1 makes it")
	}
}

// Each row is complete. A missing field fails no other test.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, f := range table.Families {
		for _, cmd := range f.Rows {
			if names[cmd.Name] {
				t.Errorf("%s is there twice", cmd.Name)
			}
			names[cmd.Name] = true
			for _, row := range append(slices.Clone(cmd.Subs), cmd) {
				switch {
				case row.Name != strings.ToLower(row.Name) || row.Arity == 0 || row.Summary == "":
					t.Errorf("%s lacks something", row.FullName())
				case row.Run == nil && row.Inner == nil && len(row.Subs) == 0:
					t.Errorf("%s does nothing", row.FullName())
				case row.Flags&command.Write != 0 && row.Flags&command.ReadOnly != 0:
					t.Errorf("%s writes and reads only", row.FullName())
				case row.How == command.Changing && row.Flags&command.Write == 0 || row.How == command.Looking && row.Flags&command.Write != 0:
					t.Errorf("%s is told otherwise than it is run", row.FullName())
				}
			}
		}
	}
}

// HELP of a command with subcommands names each.
func TestHelp(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	for _, cmd := range table.ByName {
		if len(cmd.Subs) == 0 {
			continue
		}
		reply := p.do(cmd.Name + " HELP")
		for _, sub := range cmd.Subs {
			if !strings.HasPrefix(reply, "["+strings.ToUpper(cmd.Name)+" <subcommand>") || !strings.Contains(reply, strings.ToUpper(sub.Name)) {
				t.Errorf("%s HELP does not name %s: %s", cmd.Name, sub.Name, reply)
			}
		}
	}
}
