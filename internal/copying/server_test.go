package copying

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/redisserver"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/remote"
)

// served returns a store that a server of this process serves, as a client of the server and
// directly.
func served(t *testing.T) (client, behind *copal.DB) {
	t.Helper()
	behind = open(t, t.TempDir())
	return dial(t, serving(t, behind)), behind
}

func dial(t *testing.T, addresses ...string) *copal.DB {
	t.Helper()
	db, err := remote.Open(t.Context(), "redis://"+strings.Join(addresses, ","), copal.WithErrorHandler(func(err error) { t.Error(err) }))
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func copyAll(t *testing.T, from, to *copal.DB) Report {
	t.Helper()
	c := New(from, to)
	must(t, c.CatchUp(t.Context()), c.Finish(t.Context()))
	return c.Report()
}

// TestThroughServers copies a directory to a copal serve, and from there to another directory: types, elements and
// deadlines are the same at the end.
func TestThroughServers(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	client, behind := served(t)
	w := newWriter(t, from, 11)
	w.steps(t, 1000)
	a := copyAll(t, from, client)
	equal(t, from, behind)
	b := copyAll(t, client, to)
	equal(t, from, to)
	if a.Sum != b.Sum || a.Sum == (Sum{}) || a.Entries != int64(from.Raw().Len()) {
		t.Errorf("%+v and then %+v", a, b)
	}
}

// TestServerThatIsWrittenTo copies from a copal serve during writes.
func TestServerThatIsWrittenTo(t *testing.T) {
	client, behind := served(t)
	to := open(t, t.TempDir())
	w := newWriter(t, behind, 12)
	w.steps(t, 500)
	c := New(client, to)
	must(t, c.CatchUp(t.Context()))
	equal(t, behind, to)
	until, end := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() { followed <- c.Follow(t.Context(), until) }()
	w.steps(t, 500)
	must(t, behind.Raw().Set([]byte("last"), []byte("1")))
	for range to.Watch(t.Context(), copal.WithKey([]byte("last")), copal.WithAfter(0)) {
		break
	}
	end()
	must(t, <-followed, c.Finish(t.Context()))
	equal(t, behind, to)
	if r := c.Report(); r.Walks != 1 {
		t.Errorf("%+v", r)
	}
}

// TestThroughRedis copies a directory to a Redis and back. Values are as their codecs have made them.
func TestThroughRedis(t *testing.T) {
	_, address := redisserver.Start(t)
	throughRedis(t, dial(t, address))
}

func TestThroughACluster(t *testing.T) {
	t.Parallel() // most of it is waiting
	throughRedis(t, dial(t, redisserver.StartCluster(t).Addresses()...))
}

func throughRedis(t *testing.T, client *copal.DB) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	w := newWriter(t, from, 13)
	w.steps(t, 1000)
	a := copyAll(t, from, client)
	w.steps(t, 100)
	again := New(from, client)
	again.Replace = true
	must(t, again.CatchUp(t.Context()), again.Finish(t.Context()))
	b := copyAll(t, client, to)
	if b.Sum != again.Report().Sum || a.Entries == 0 || b.Entries != int64(from.Raw().Len()) {
		t.Errorf("%+v and then %+v", again.Report(), b)
	}
	sameBytes(t, from, to)
	must(t, client.Raw().Set([]byte("while"), []byte("nobody tells")))
	if r := copyAllAnew(t, client, to); r.Written != 1 {
		t.Errorf("%+v", r)
	}
}

func copyAllAnew(t *testing.T, from, to *copal.DB) Report {
	t.Helper()
	c := New(from, to)
	c.Replace = true
	must(t, c.CatchUp(t.Context()), c.Finish(t.Context()))
	return c.Report()
}

// sameBytes compares the entries of two directories, except the names of codecs and schemas.
func sameBytes(t *testing.T, a, b *copal.DB) {
	t.Helper()
	x, err := a.Snapshot()
	must(t, err)
	defer x.Close()
	y, err := b.Snapshot()
	must(t, err)
	defer y.Close()
	for d, err := range admin.Diff(x, y, nil, nil) {
		must(t, err)
		if d.A == nil || d.B == nil || !bytes.Equal(d.A.Value, d.B.Value) || d.A.Collection != d.B.Collection || !d.A.Expires.Equal(d.B.Expires) || d.A.Elements != d.B.Elements {
			t.Errorf("key %q: %+v and %+v", d.Key, d.A, d.B)
		}
	}
}

// TestContentTypesAndServers: a Redis keeps no content types, which are counted, and all others do.
func TestContentTypesAndServers(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	late := time.Now().Add(time.Hour)
	must(t, admin.Put(from, &admin.Entry{Key: []byte("a"), Value: []byte("<p>"), Content: "text/html"}, &admin.Entry{Key: []byte("b"), Value: []byte("v")},
		&admin.Entry{Key: []byte("c"), Value: []byte("png"), Content: "image/png", Expires: late}))
	client, behind := served(t)
	for _, c := range []struct{ from, to, behind *copal.DB }{{from, client, behind}, {client, to, to}} {
		if r := copyAll(t, c.from, c.to); r.Contents != 0 || r.Entries != 3 {
			t.Errorf("%+v", r)
		}
		equal(t, from, c.behind)
	}
	must(t, admin.Put(from, &admin.Entry{Key: []byte("a"), Value: []byte("<p>"), Content: "text/plain"}))
	if r := copyAllAnew(t, from, client); r.Written != 1 {
		t.Errorf("a content type that changes: %+v", r)
	}
	equal(t, from, behind)
	_, address := redisserver.Start(t)
	for _, source := range []*copal.DB{from, client} {
		if r := copyAllAnew(t, source, dial(t, address)); r.Contents != 2 || !r.Compared {
			t.Errorf("to a Redis: %+v", r)
		}
	}
	if r := copyAll(t, dial(t, address), open(t, t.TempDir())); r.Contents != 0 {
		t.Errorf("from a Redis: %+v", r)
	}
}

// TestMapsAndServers declares maps that have no entries at the end of a way through servers.
func TestMapsAndServers(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	for _, name := range []string{"users", "a:b", "none"} {
		must(t, admin.DeclareMap(from, name))
	}
	must(t, from.Raw().Set([]byte("users:1"), []byte("x")))
	first, _ := served(t)
	second, behind := served(t)
	copyAll(t, from, first)
	copyAll(t, first, second)
	copyAll(t, second, to)
	sameMaps(t, from, behind)
	sameMaps(t, from, to)
}

// TestRedisIsReadFromTheBeginning goes on with a copy of a Redis that has changed where the walk has been.
func TestRedisIsReadFromTheBeginning(t *testing.T) {
	_, address := redisserver.Start(t)
	client, to := dial(t, address), open(t, t.TempDir())
	must(t, client.Raw().Set([]byte("a"), []byte("1")), client.Raw().Set([]byte("z"), []byte("1")))
	half := New(client, to)
	half.at = position{Next: []byte("m")}
	must(t, half.note(t.Context()))
	c := New(client, to)
	must(t, c.CatchUp(t.Context()))
	if r := c.Report(); r.Written != 2 || !r.Resumed || r.Compared {
		t.Errorf("%+v", r)
	}
	must(t, c.Finish(t.Context()))
	if r := c.Report(); !r.Compared || r.Entries != 2 {
		t.Errorf("%+v", r)
	}
}

// TestRedisSaysWhatChanges copies from a Redis that says which keys change: those, and not all. When a connection ends,
// all is read again.
func TestRedisSaysWhatChanges(t *testing.T) {
	_, address := redisserver.Start(t, "--notify-keyspace-events", "EA")
	saysWhatChanges(t, address)
}

func TestClusterSaysWhatChanges(t *testing.T) {
	t.Parallel() // most of it is waiting
	saysWhatChanges(t, redisserver.StartCluster(t, "--notify-keyspace-events", "EA").Addresses()...)
}

func saysWhatChanges(t *testing.T, addresses ...string) {
	client, to := dial(t, addresses...), open(t, t.TempDir())
	raw := client.Raw()
	for i := range 300 {
		must(t, raw.Set(fmt.Append(nil, "key ", i), []byte("1")))
	}
	c := New(client, to)
	var walks atomic.Int64
	c.Tell = func(phase string) {
		if phase == "copying" {
			walks.Add(1)
		}
	}
	must(t, c.CatchUp(t.Context()))
	until, end := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() { followed <- c.Follow(t.Context(), until) }()
	write := func(key, word string) { // again, if the connection was cut
		for err := errors.New(""); err != nil; {
			if err = raw.Set([]byte(key), []byte(word)); err != nil && !errors.Is(err, copal.ErrUnknown) {
				t.Fatal(err)
			}
		}
	}
	copied := func(key, word string) {
		for range to.Watch(t.Context(), copal.WithKey([]byte(key)), copal.WithAfter(0)) {
			if got, _ := to.Raw().Get([]byte(key)); string(got) == word {
				return
			}
		}
	}
	change := func(word string) {
		for i := range 50 {
			write(fmt.Sprint("key ", i), word)
		}
		write("last", word)
		copied("last", word)
	}
	change("a")
	_, err := raw.Delete([]byte("key 299"))
	must(t, err, raw.Hash([]byte("hash")).Set("field", []byte("b")))
	change("b")
	if n := walks.Load(); n != 1 {
		t.Errorf("the source was read %d times, before a connection has ended", n)
	}
	for _, a := range addresses {
		nc, err := net.Dial("tcp", a)
		must(t, err)
		_, err = nc.Write([]byte("*6\r\n$6\r\nCLIENT\r\n$4\r\nKILL\r\n$4\r\nTYPE\r\n$6\r\npubsub\r\n$6\r\nSKIPME\r\n$3\r\nyes\r\n"))
		must(t, err)
		_, err = nc.Read(make([]byte, 1))
		must(t, err, nc.Close())
	}
	write("unheard", "c")
	change("c")
	copied("unheard", "c")
	end()
	must(t, <-followed)
	if n := walks.Load(); n < 2 {
		t.Errorf("the source was read %d times, after a connection has ended", n)
	}
	must(t, c.Finish(t.Context()))
	if r := c.Report(); r.Entries != 302 || !r.Compared {
		t.Errorf("%+v", r)
	}
	sameBytes(t, to, copiedByAWalk(t, client))
}

// copiedByAWalk is another copy of a Redis.
func copiedByAWalk(t *testing.T, from *copal.DB) *copal.DB {
	t.Helper()
	to := open(t, t.TempDir())
	copyAll(t, from, to)
	return to
}

// TestRedisThatMayNotBeListenedTo copies from a Redis whose user may not listen to changes, as from
// one that does not report them.
func TestRedisThatMayNotBeListenedTo(t *testing.T) {
	_, address := redisserver.Start(t, "--notify-keyspace-events", "EA", "--user", "deaf on nopass ~* +@all resetchannels")
	client, to := dial(t, "deaf:x@"+address), open(t, t.TempDir())
	must(t, client.Raw().Set([]byte("a"), []byte("1")))
	copyAll(t, client, to)
	if got, ok := to.Raw().Get([]byte("a")); string(got) != "1" || !ok {
		t.Errorf("there is %q, %v", got, ok)
	}
}

// TestOneKeyOfAServer looks a single key up by itself: a range would have the server put all keys of a table in order.
func TestOneKeyOfAServer(t *testing.T) {
	db := open(t, t.TempDir())
	hash := db.Raw().Hash([]byte("h"))
	must(t, db.Raw().Set([]byte("k"), []byte("v")), hash.Set("f", []byte("1")))
	address := serving(t, db)
	v, err := Look(t.Context(), dial(t, address))
	must(t, err)
	defer v.Close()
	must(t, db.Raw().Set([]byte("k"), []byte("later")))
	nc, err := net.Dial("tcp", address)
	must(t, err)
	defer nc.Close()
	seen := bufio.NewReader(nc)
	_, err = nc.Write(resp.AppendRequest(nil, "MONITOR"))
	must(t, err)
	if line, err := seen.ReadString('\n'); line != "+OK\r\n" {
		t.Fatal(line, err)
	}
	got := ""
	for _, key := range []string{"h", "k", "none"} {
		for e, err := range v.Entries([]byte(key), []byte(key+"\x00")) {
			must(t, err)
			got += fmt.Sprintf("%s %s %s,", e.Key, e.Collection, e.Value)
		}
	}
	if got != "h hash ,k  v," {
		t.Error(got)
	}
	commands(t, address, "PING last")
	for entries, line := 0, ""; !strings.Contains(line, "last"); {
		line, err = seen.ReadString('\n')
		must(t, err)
		if strings.Contains(line, "COPAL.RANGE") {
			t.Error(line)
		}
		if strings.Contains(line, "COPAL.ENTRY") {
			entries++
		}
		if strings.Contains(line, "last") && entries != 3 {
			t.Errorf("%d single keys were read", entries)
		}
	}
}

// flipping is a driver whose keys hold something else each time that they are looked at.
type flipping struct {
	driver.Driver
	times int
}

func (f *flipping) Get(_ context.Context, key []byte, _ bool) (driver.Entry, error) {
	if f.times--; f.times >= 0 {
		return driver.Entry{}, fmt.Errorf("%w: key %q", copal.ErrType, key)
	}
	return driver.Entry{Key: key, Value: []byte("v")}, nil
}

// TestKeysThatChangeTheirKind are looked at again.
func TestKeysThatChangeTheirKind(t *testing.T) {
	d := &flipping{times: 5}
	if e, err := (server{d}).one(t.Context(), d, []byte("k")); string(e.Value) != "v" || err != nil {
		t.Errorf("%q, %v", e.Value, err)
	}
	d.times = 1 << 30
	if _, err := (server{d}).one(t.Context(), d, []byte("k")); !errors.Is(err, copal.ErrType) {
		t.Error(err)
	}
}
