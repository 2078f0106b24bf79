package copying

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/redisserver"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi"
)

// commands carries out lines of commands, whose words have no spaces, on a server.
func commands(t *testing.T, address string, lines ...string) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	must(t, err)
	defer nc.Close()
	in := bufio.NewReader(nc)
	for _, line := range lines {
		_, err := nc.Write(resp.AppendRequest(nil, strings.Fields(line)...))
		must(t, err)
		reply, err := resp.ReadReply(in)
		if refused, ok := reply.(resp.ErrorReply); ok {
			err = refused
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// serving is the address at which a store is served until the test ends.
func serving(t *testing.T, db *copal.DB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &redisapi.Server{DB: db}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Shutdown(context.Background())
		<-ended
	})
	return l.Addr().String()
}

var someStreams = []string{
	"XADD full 1-1 a 1 b 2", "XADD full 1-2 a 1", "XADD full 2-0 other x", "XADD full 3-0 a 1", "XDEL full 2-0",
	"XGROUP CREATE full readers 0", "XREADGROUP GROUP readers ada COUNT 2 STREAMS full >", "XACK full readers 1-1",
	"XREADGROUP GROUP readers bob COUNT 1 STREAMS full >", "XGROUP CREATE full others $", "XGROUP SETID full others 1-1", "XGROUP CREATECONSUMER full others idle",
	"XGROUP CREATE none group $ MKSTREAM", "XADD gone 5-5 a 1", "XDEL gone 5-5",
	"XADD turns 1-1 a 1", "XADD turns 1-2 a 1", "XADD turns 1-3 a 1", "XGROUP CREATE turns g 0", "XREADGROUP GROUP g ada COUNT 1 STREAMS turns >",
	"XREADGROUP GROUP g bob COUNT 1 STREAMS turns >", "XREADGROUP GROUP g ada COUNT 1 STREAMS turns >",
	"XADD late 1-1 a 1", "PEXPIREAT late 4102444800123",
	"XADD plain 1-1 a 1", "XSETID plain 9-9 ENTRIESADDED 70 MAXDELETEDID 8-8",
}

// changedStreams are changes of those, one of which turns each into something else.
var changedStreams = []string{
	"XACK full readers 1-2", "XADD full 4-0 a 2", "XGROUP DESTROY full others", "DEL none", "DEL gone", "SET gone value", "PEXPIREAT late 4102444800999", "DEL plain", "HSET plain f v",
	"XADD new 1-1 a 1",
}

// longStream are the commands of a stream that is read in several pieces.
func longStream() (lines []string) {
	for i := range 1500 {
		lines = append(lines, fmt.Sprintf("XADD long %d-0 n %d", i+1, i))
	}
	return lines
}

// TestStreamsThroughServers copies streams with groups to a copal serve and back. All of them is the same at the end.
func TestStreamsThroughServers(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	address := serving(t, from)
	client, behind := served(t)
	commands(t, address, slices.Concat(someStreams, longStream())...)
	a, b := copyAll(t, from, client), copyAll(t, client, to)
	equal(t, from, behind)
	equal(t, from, to)
	if a.Sum != b.Sum || a.Entries != 7 || b.Entries != 7 {
		t.Errorf("%+v and then %+v", a, b)
	}
	commands(t, address, changedStreams...)
	a, b = copyAllAnew(t, from, client), copyAllAnew(t, client, to)
	equal(t, from, behind)
	equal(t, from, to)
	if a.Sum != b.Sum || a.Written != 5 || a.Deleted != 1 {
		t.Errorf("%+v and then %+v", a, b)
	}
}

// TestStreamsThatChange follows a copal serve and a Redis whose streams change meanwhile.
func TestStreamsThatChange(t *testing.T) {
	for _, where := range []string{"copal", "redis"} {
		t.Run(where, func(t *testing.T) {
			to := open(t, t.TempDir())
			var address string
			if where == "copal" {
				address = serving(t, open(t, t.TempDir()))
			} else {
				_, address = redisserver.Start(t, "--notify-keyspace-events", "EA")
			}
			commands(t, address, someStreams...)
			c := New(dial(t, address), to)
			must(t, c.CatchUp(t.Context()))
			until, end := context.WithCancel(t.Context())
			followed := make(chan error, 1)
			go func() { followed <- c.Follow(t.Context(), until) }()
			commands(t, address, append(slices.Clone(changedStreams), "SET last 1")...)
			for range to.Watch(t.Context(), copal.WithKey([]byte("last")), copal.WithAfter(0)) {
				break
			}
			end()
			must(t, <-followed, c.Finish(t.Context()))
			if r := c.Report(); r.Entries != 7 || !r.Compared || r.Walks != 1 && where == "copal" {
				t.Errorf("%+v", r)
			}
			if kind, err := to.Raw().Type([]byte("plain")); kind != "hash" || err != nil {
				t.Errorf("a stream that has become a hash is a %s, %v", kind, err)
			}
		})
	}
}

// TestStreamsThroughRedis copies streams to a Redis and back: the parts that Redis keeps are the
// same at the end.
func TestStreamsThroughRedis(t *testing.T) {
	_, address := redisserver.Start(t)
	streamsThroughRedis(t, dial(t, address))
}

func TestStreamsThroughACluster(t *testing.T) {
	t.Parallel() // most of it is waiting
	streamsThroughRedis(t, dial(t, redisserver.StartCluster(t).Addresses()...))
}

func streamsThroughRedis(t *testing.T, redis *copal.DB) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	address := serving(t, from)
	commands(t, address, slices.Concat(someStreams, longStream())...)
	client, behind := served(t)
	a := copyAll(t, from, redis)
	b := copyAll(t, redis, client)
	c := copyAll(t, redis, to)
	d := copyAllAnew(t, client, redis)
	if a.Sum != b.Sum || a.Sum != c.Sum || a.Sum != d.Sum || a.Entries != 7 || d.Written != 0 {
		t.Errorf("%+v, %+v, %+v, %+v", a, b, c, d)
	}
	equal(t, to, behind)
	sameStreams(t, from, to, "full", "none", "gone", "turns", "late", "plain", "long")
	commands(t, address, changedStreams...)
	a, c = copyAllAnew(t, from, redis), copyAllAnew(t, redis, to)
	if a.Sum != c.Sum || a.Written != 5 || a.Deleted != 1 {
		t.Errorf("%+v, %+v", a, c)
	}
	sameStreams(t, from, to, "full", "late", "new")
	copyAllAnew(t, open(t, t.TempDir()), redis)
	if n := redis.Raw().Len(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// sameStreams compares streams by the elements that a dump keeps, but for the places and times that it lacks.
func sameStreams(t *testing.T, a, b *copal.DB, keys ...string) {
	t.Helper()
	for _, key := range keys {
		var dumps [2]string
		for i, db := range []*copal.DB{a, b} {
			s, err := db.Snapshot()
			must(t, err)
			dump, err := dumpOf(admin.Elements(s, []byte(key)))
			must(t, err)
			deadline, err := s.Raw().Deadline([]byte(key))
			must(t, err)
			if again, err := dumpOf(elementsIn(dump)); string(again) != string(dump) {
				t.Errorf("stream %q is another after a dump: %v", key, err)
			}
			dumps[i] = fmt.Sprintf("%q %v", dump, deadline)
			s.Close()
		}
		if dumps[0] != dumps[1] {
			t.Errorf("stream %q:\n%s\n%s", key, dumps[0], dumps[1])
		}
	}
}

// TestStreamsOfOtherMeans: elements that no command of streams makes end a copy to a Redis, and its
// entries stay.
func TestStreamsOfOtherMeans(t *testing.T) {
	from := open(t, t.TempDir())
	must(t, from.Raw().Stream([]byte("s")).Set("rubbish", []byte("x")))
	client, behind := served(t)
	copyAll(t, from, client)
	equal(t, from, behind)
	_, address := redisserver.Start(t)
	commands(t, address, "SET s old")
	redis := dial(t, address)
	c := New(client, redis)
	c.Replace = true
	if err := c.CatchUp(t.Context()); err == nil || !strings.Contains(err.Error(), `key "s"`) {
		t.Errorf("%v", err)
	}
	if got, _ := redis.Raw().Get([]byte("s")); string(got) != "old" {
		t.Errorf("the Redis has %q", got)
	}
}

// TestStreamsThatHaveGone: where the source has no element any more, the destination has no stream, and no empty one.
func TestStreamsThatHaveGone(t *testing.T) {
	_, address := redisserver.Start(t)
	client, behind := served(t)
	commands(t, address, "XADD s 1-1 a 1")
	copyAll(t, dial(t, address), client)
	for _, db := range []*copal.DB{dial(t, address), client, behind} {
		none := func(func(admin.Element, error) bool) {}
		must(t, storeOf(db).putCollection(t.Context(), &admin.Entry{Key: []byte("s"), Collection: "stream"}, none))
		if db.Raw().Has([]byte("s")) {
			t.Error("it is there")
		}
	}
}

// TestCollectionsThatHaveChanged: a Redis has no moments, so a collection may be something else
// when its elements are read. Then there are none, and a later round copies the new entry.
func TestCollectionsThatHaveChanged(t *testing.T) {
	_, address := redisserver.Start(t)
	commands(t, address, "SET value v", "HSET hash f v", "RPUSH list a")
	p := present{t.Context(), server{opened.DriverOf(dial(t, address))}}
	for _, key := range []string{"value", "hash", "list", "none"} {
		for _, kind := range []string{"stream", "set", "zset"} {
			for e, err := range p.elements(&admin.Entry{Key: []byte(key), Collection: kind}) {
				t.Errorf("%s as a %s has %v, %v", key, kind, e, err)
			}
		}
	}
}
