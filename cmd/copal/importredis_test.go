package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/importers"
	"github.com/copaldb/copal/cmd/copal/internal/importing"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/redisserver"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi"
)

// redisClient is a connection to a server.
type redisClient struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func dialRedis(t testing.TB, address string) *redisClient {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &redisClient{t, conn, bufio.NewReader(conn)}
}

func (c *redisClient) do(args ...string) any {
	c.t.Helper()
	if _, err := c.conn.Write(resp.AppendRequest(nil, args...)); err != nil {
		c.t.Fatal(err)
	}
	v, err := resp.ReadReply(c.in)
	if refused, ok := v.(resp.ErrorReply); ok {
		err = refused
	}
	if err != nil {
		c.t.Fatalf("%.200q: %v", args, err)
	}
	return v
}

func (c *redisClient) list(args ...string) (list []string) {
	c.t.Helper()
	for _, e := range c.do(args...).([]any) {
		list = append(list, string(e.([]byte)))
	}
	return list
}

// serveCopal serves a store until the test ends, or stop is called.
func serveCopal(t testing.TB, dir string) (address string, stop func()) {
	t.Helper()
	db := openForTest(t, dir)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &redisapi.Server{DB: db}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	stop = sync.OnceFunc(func() {
		if err := errors.Join(s.Shutdown(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
		<-ended
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// fillRedis puts keys of all types into databases, some with deadlines that are far.
func fillRedis(t testing.TB, address string, seed uint64, databases ...int) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	c := dialRedis(t, address)
	word := func() string {
		switch rnd.IntN(5) {
		case 0:
			return fmt.Sprint(rnd.Int64() >> rnd.IntN(64))
		case 1:
			return fmt.Sprint(-(rnd.Int64() >> rnd.IntN(64)))
		case 2:
			return strings.Repeat("long ", rnd.IntN(40))
		}
		return string(randomBytes(rnd, rnd.IntN(90)))
	}
	words := func() (list []string) {
		n := 1 + rnd.IntN(12)
		if rnd.IntN(8) == 0 {
			n = 200 + rnd.IntN(900)
		}
		for i := range n {
			list = append(list, word()+fmt.Sprint("-", i))
		}
		if rnd.IntN(3) == 0 {
			for i := range list {
				list[i] = fmt.Sprint(rnd.Int64N(1 << (1 + rnd.IntN(50))))
			}
		}
		return list
	}
	for _, n := range databases {
		c.do("SELECT", fmt.Sprint(n))
		for i := range 150 {
			key := fmt.Sprintf("%d:%s", i, randomBytes(rnd, rnd.IntN(10)))
			list := words()
			switch rnd.IntN(5) {
			case 0:
				c.do("SET", key, strings.Join(list[:1+rnd.IntN(len(list))], " "))
			case 1:
				c.do(append([]string{"RPUSH", key}, list...)...)
			case 2:
				c.do(append([]string{"SADD", key}, list...)...)
			case 3:
				args := []string{"HSET", key}
				for _, f := range list {
					args = append(args, f, word())
				}
				c.do(args...)
			case 4:
				args := []string{"ZADD", key}
				for _, m := range list {
					args = append(args, []string{"1", "-0.25", "inf", "-inf", "0", "-0", fmt.Sprint(rnd.NormFloat64()), fmt.Sprint(rnd.Int64())}[rnd.IntN(8)], m)
				}
				c.do(args...)
			}
			if rnd.IntN(3) == 0 {
				c.do("PEXPIREAT", key, fmt.Sprint(4102444800000+rnd.Int64N(1e12)))
			}
		}
	}
}

// contentsOfRedis shows the content of each key in databases of a server, read by the commands of
// its type.
func contentsOfRedis(t testing.TB, address string, databases ...int) map[string]string {
	all := map[string]string{}
	c := dialRedis(t, address)
	for _, n := range databases {
		c.do("SELECT", fmt.Sprint(n))
		for _, key := range c.list("KEYS", "*") {
			kind := string(c.do("TYPE", key).([]byte))
			var what any
			switch kind {
			case "string":
				what = fmt.Sprintf("%q", c.do("GET", key))
			case "list":
				what = c.list("LRANGE", key, "0", "-1")
			case "set":
				list := c.list("SMEMBERS", key)
				slices.Sort(list)
				what = list
			case "hash":
				fields := map[string]string{}
				list := c.list("HGETALL", key)
				for i := 0; i < len(list); i += 2 {
					fields[list[i]] = list[i+1]
				}
				what = fields
			case "zset":
				list := c.list("ZRANGE", key, "0", "-1", "WITHSCORES")
				for i := 1; i < len(list); i += 2 {
					var score float64
					fmt.Sscan(list[i], &score)
					list[i] = fmt.Sprint(score + 0)
				}
				what = list
			}
			all[string(redisapi.Key(n, []byte(key)))] = fmt.Sprintf("%s %q until %d", kind, what, max(c.do("PEXPIRETIME", key).(int64), 0))
		}
	}
	return all
}

// contentsOfStore returns the same as contentsOfRedis, for a store.
func contentsOfStore(t testing.TB, dir string) map[string]string {
	all := map[string]string{}
	db := openForTest(t, dir)
	defer db.Close()
	raw := db.Raw()
	for key := range raw.Keys() {
		kind, err := raw.Type(key)
		if err != nil {
			t.Fatal(err)
		}
		var what any
		switch kind {
		case "value":
			value, err := raw.Load(key)
			if err != nil {
				t.Fatal(err)
			}
			kind, what = "string", fmt.Sprintf("%q", value)
		case "list":
			what = slices.Collect(raw.List(key).All())
		case "set":
			what = slices.Collect(raw.StringSet(key).All())
		case "hash":
			what = maps.Collect(raw.Hash(key).All())
		case "zset":
			var list []string
			for member, score := range raw.SortedSet(key).All() {
				list = append(list, member, fmt.Sprint(score))
			}
			what = list
		}
		until := int64(0)
		if at, err := raw.Deadline(key); err != nil {
			t.Fatal(err)
		} else if !at.IsZero() {
			until = at.UnixMilli()
		}
		all[string(key)] = fmt.Sprintf("%s %q until %d", kind, what, until)
	}
	return all
}

func wantContents(t *testing.T, got, want map[string]string) {
	t.Helper()
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("%q: %.300s\nwant %.300s", key, got[key], want[key])
		}
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
}

// An import from a file of redis-server, or from the server, has the content that the server shows.
func TestImportComparedWithRedis(t *testing.T) {
	for seed, settings := range [][]string{
		nil,
		{"--rdbcompression", "no", "--rdbchecksum", "no", "--list-max-listpack-size", "3"},
		{"--hash-max-listpack-entries", "5", "--zset-max-listpack-entries", "5", "--set-max-intset-entries", "5", "--hash-max-listpack-value", "20", "--list-max-listpack-size", "1000", "--maxmemory-policy", "allkeys-lfu"},
		{"--maxmemory-policy", "allkeys-lru", "--list-compress-depth", "1", "--list-max-listpack-size", "-1"},
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir, address := redisserver.Start(t, settings...)
			fillRedis(t, address, uint64(seed), 0, 3)
			want := contentsOfRedis(t, address, 0, 3)
			dialRedis(t, address).do("SAVE")
			for _, from := range []string{filepath.Join(dir, "dump.rdb"), "redis://" + address} {
				store := filepath.Join(t.TempDir(), "s")
				out := mustCommand(t, nil, "import", store, from)
				if want := fmt.Sprintf(", %d verified\n", len(want)); !strings.HasSuffix(out, want) {
					t.Errorf("%s: %s, want %s", from, out, want)
				}
				wantContents(t, contentsOfStore(t, store), want)
			}
		})
	}
}

// Copal is a server as well: one copal imports the entries that another serves.
func TestImportFromCopal(t *testing.T) {
	served := filepath.Join(t.TempDir(), "served")
	address, stop := serveCopal(t, served)
	fillRedis(t, address, 7, 0, 15)
	want := contentsOfRedis(t, address, 0, 15)
	store := filepath.Join(t.TempDir(), "s")
	mustCommand(t, nil, "import", store, "redis://"+address+"/0")
	wantContents(t, contentsOfStore(t, store), contentsOfRedis(t, address, 0))
	mustCommand(t, nil, "import", store, "redis://"+address+"/15")
	wantContents(t, contentsOfStore(t, store), want)

	// A replaced key loses its old content, and others stay.
	c := dialRedis(t, address)
	for _, key := range c.list("KEYS", "*") {
		c.do("DEL", key)
		c.do("RPUSH", key, "only", "this")
	}
	c.do("SET", "more", "v")
	c.do("PEXPIRE", "more", "1000000000")
	before := len(want)
	want = contentsOfRedis(t, address, 0, 15)
	out := mustCommand(t, nil, "import", store, "redis://"+address, "--json")
	if text := fmt.Sprintf(`"entries":%d,"replaced":%d,"verified":%d,`, before+1, before, before+1); !strings.Contains(out, text) {
		t.Errorf("%s, want %s", out, text)
	}
	wantContents(t, contentsOfStore(t, store), want)

	// It is the same to the byte.
	c.conn.Close()
	stop()
	if !reflect.DeepEqual(contentOf(t, store), contentOf(t, served)) {
		t.Error("the entries or elements of the stores are not the same")
	}
}

// A server before 7.0 does not show deadlines, and one with a password asks for it.
func TestImportFromOldRedis(t *testing.T) {
	_, address := redisserver.Start(t, "--rename-command", "PEXPIRETIME", "", "--requirepass", "secret")
	c := dialRedis(t, address)
	c.do("AUTH", "secret")
	c.do("SET", "k", "v")
	c.do("PEXPIREAT", "k", "4102444800123")
	c.do("XADD", "s", "1-1", "f", "v")
	store := filepath.Join(t.TempDir(), "s")
	if code, _, errs := command(nil, "import", store, "redis://"+address); code != cli.ExitError || !strings.Contains(errs, "NOAUTH") {
		t.Errorf("without a password: exit code %d, %s", code, errs)
	}
	if _, err := os.Stat(store); err == nil {
		t.Error("an import that was refused has made a store")
	}
	if code, _, errs := command(nil, "import", store, "redis://:wrong@"+address); code != cli.ExitError || !strings.Contains(errs, "WRONGPASS") || strings.Contains(errs, "wrong@") {
		t.Errorf("with a wrong password: exit code %d, %s", code, errs)
	}
	for _, password := range []string{"", ":secret@", "default:secret@"} {
		t.Setenv("REDISCLI_AUTH", map[bool]string{true: "secret", false: "none"}[password == ""])
		out := mustCommand(t, nil, "import", store, "redis://"+password+address, "--json")
		if !strings.Contains(out, `"verified":2`) || strings.Contains(out, "secret") {
			t.Error(out)
		}
	}
	db := openForTest(t, store)
	at, err := db.Raw().Deadline([]byte("k"))
	if err != nil || at.Sub(time.UnixMilli(4102444800123)).Abs() > time.Second {
		t.Errorf("the deadline is %v, %v", at, err)
	}
}

// twice adds a format that yields first, and then at the second reading, and returns arguments of
// an import from it.
func twice(t *testing.T, live bool, first, then []importers.Item) (args []string) {
	readings := 0
	importers.Formats = append(importers.Formats, importers.Format{Name: "twice", Stream: true, Redis: true, Live: live, Read: func(_ *importers.Source, emit func(*importers.Item) error) error {
		readings++
		list := first
		if readings == 2 {
			list = then
		}
		for i := range list {
			if err := emit(&list[i]); err != nil {
				return err
			}
		}
		return nil
	}})
	t.Cleanup(func() { importers.Formats = importers.Formats[:len(importers.Formats)-1] })
	dir := t.TempDir()
	from := filepath.Join(dir, "file")
	if err := os.WriteFile(from, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if live {
		from = "redis://nowhere"
	}
	return []string{"import", filepath.Join(dir, "s"), from, "--from", "twice"}
}

// The verification sees every difference between the entries read and those of the store.
func TestImportIsVerified(t *testing.T) {
	far := time.UnixMilli(4102444800123)
	entry := func(key, value string, expires time.Time) importers.Item {
		return importers.Item{Entry: admin.Entry{Key: []byte(key), Value: []byte(value), Expires: expires}}
	}
	whole := func(key, kind string, expires time.Time) importers.Item {
		return importers.Item{Entry: admin.Entry{Key: []byte(key), Collection: kind, Expires: expires}}
	}
	element := func(name, value string) importers.Item {
		return importers.Item{Element: &admin.Element{Name: []byte(name), Value: []byte(value)}}
	}
	member := func(name string, score float64) importers.Item {
		return importers.Item{Element: &admin.Element{Name: []byte(name)}, Score: &score}
	}
	none := time.Time{}
	values := []importers.Item{entry("a", "1", none), entry("b", "2", far)}
	hash := []importers.Item{whole("h", "hash", far), element("f", "v"), element("g", "w")}
	zset := []importers.Item{whole("z", "zset", none), member("m", 1), member("n", math.Inf(1))}
	list := slices.Concat(values, hash, zset)
	for name, c := range map[string]struct {
		then []importers.Item
		want string // the keys that differ
	}{
		"the same":                  {slices.Concat(zset, hash, values), ""},
		"the same in another order": {slices.Concat(values, []importers.Item{hash[0], hash[2], hash[1]}, zset), ""},
		"another value":             {slices.Concat([]importers.Item{entry("a", "2", none)}, values[1:], hash, zset), `"a"`},
		"another entry":             {slices.Concat(list, []importers.Item{entry("c", "", none)}), `"c"`},
		"a deadline":                {slices.Concat([]importers.Item{entry("a", "1", far)}, values[1:], hash, zset), `"a"`},
		"another deadline":          {slices.Concat(values[:1], []importers.Item{entry("b", "2", far.Add(time.Millisecond))}, hash, zset), `"b"`},
		"no deadline":               {slices.Concat(values, []importers.Item{whole("h", "hash", none)}, hash[1:], zset), `"h"`},
		"fewer fields":              {slices.Concat(values, hash[:2], zset), `"h"`},
		"more fields":               {slices.Concat(values, hash, []importers.Item{element("f", "v")}, zset), `"h"`},
		"another value of a field":  {slices.Concat(values, hash[:2], []importers.Item{element("g", "v")}, zset), `"h"`},
		"a name that goes on":       {slices.Concat(values, hash[:2], []importers.Item{element("gw", "")}, zset), `"h"`},
		"another type":              {slices.Concat(values, []importers.Item{whole("h", "set", far)}, hash[1:], zset), `"h"`},
		"another score":             {slices.Concat(values, hash, zset[:2], []importers.Item{member("n", math.Inf(-1))}), `"z"`},
		"a collection, no value":    {slices.Concat(values, hash, zset, []importers.Item{entry("z", "", none)}), `"z"`},
		"a value, no collection":    {slices.Concat([]importers.Item{whole("a", "hash", none), element("f", "v")}, values[1:], hash, zset), `"a"`},
		"fewer entries":             {slices.Concat(values[1:], hash, zset), "1 entry is not in "},
		"fewer collections":         {values, "1 entry is not in "},
		"fewer and more":            {slices.Concat([]importers.Item{entry("c", "", none)}, values[1:], hash, zset), `"c"`},
		"one that would expire":     {slices.Concat(values[:1], hash, zset), ""},
		"several":                   {slices.Concat([]importers.Item{entry("x", "", none), entry("y", "", none)}, list), `"x", "y"`},
	} {
		for _, live := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", live), func(t *testing.T) {
				args := twice(t, live, list, c.then)
				code, out, errs := command(nil, args...)
				if c.want == "" {
					n := 0
					for _, item := range c.then {
						if item.Element == nil {
							n++
						}
					}
					if code != 0 || !strings.HasSuffix(out, fmt.Sprintf("imported 4 entries from twice, %d verified\n", n)) {
						t.Fatalf("exit code %d: %s %s", code, out, errs)
					}
					return
				}
				if code != cli.ExitError || !strings.Contains(errs, ": "+c.want) || strings.Contains(errs, "once more") != (live && strings.Contains(c.want, `"`)) {
					t.Errorf("exit code %d: %s %s, want %s", code, out, errs, c.want)
				}
			})
		}
	}
}

// rdbFile writes a file of Redis without a checksum.
func rdbFile(t testing.TB, operations ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.rdb")
	if err := os.WriteFile(path, []byte("REDIS0011"+strings.Join(operations, "")+"\xff\x00\x00\x00\x00\x00\x00\x00\x00"), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func rdbString(s string) string {
	return "\x80" + string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// A file of Redis may be wrong with its checksum right. A member that comes twice is one in the
// store, in the order of its scores, and the difference is reported.
func TestImportTwiceTheSameMember(t *testing.T) {
	score := func(f float64) string {
		return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)))
	}
	from := rdbFile(t, "\x05\x01z\x03\x01m"+score(1)+"\x01n"+score(3)+"\x01m"+score(2), "\x02\x01s\x03\x01a\x01b\x01a", "\x04\x01h\x02\x01f\x01v\x01f\x01w")
	dir := filepath.Join(t.TempDir(), "s")
	code, _, errs := command(nil, "import", dir, from)
	if code != cli.ExitError || !strings.Contains(errs, `the store and `+from+` differ in 3 entries: "z", "s", "h"`) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if got := contentsOfStore(t, dir); got["z"] != `zset ["m" "2" "n" "3"] until 0` || got["s"] != `set ["a" "b"] until 0` || got["h"] != `hash map["f":"w"] until 0` {
		t.Errorf("%q", got)
	}
	mustCommand(t, nil, "check", dir)
}

// An import that a cut file has ended goes on with the whole file, amid a list, too.
func TestImportRedisResumed(t *testing.T) {
	defer func(n int) { importing.BatchEntries = n }(importing.BatchEntries)
	importing.BatchEntries = 10
	var operations []string
	for i := range 30 {
		operations = append(operations, "\x00"+rdbString(fmt.Sprint("key ", i))+rdbString(fmt.Sprint("value ", i)))
	}
	list := "\x01" + rdbString("list") + "\x40\x64"
	zset := "\x03" + rdbString("zset") + "\x40\x64"
	for i := range 100 {
		list += rdbString(fmt.Sprint("element ", i))
		zset += rdbString(fmt.Sprint("member ", i)) + "\x01" + fmt.Sprint(i%10)
	}
	from := rdbFile(t, slices.Concat(operations, []string{list, zset})...)
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(t.TempDir(), "whole")
	mustCommand(t, nil, "import", want, from)
	for n := 20; n < len(text); n += 97 {
		dir := filepath.Join(t.TempDir(), "s")
		if err := os.WriteFile(from, text[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := command(nil, "import", dir, from); code != cli.ExitError || !strings.Contains(errs, "the file ends in it") {
			t.Fatalf("of %d bytes: exit code %d: %s", n, code, errs)
		}
		if err := os.WriteFile(from, text, 0o666); err != nil {
			t.Fatal(err)
		}
		out := mustCommand(t, nil, "import", dir, from, "--resume")
		if !strings.HasSuffix(out, ", 32 verified\n") {
			t.Errorf("of %d bytes: %s", n, out)
		}
		wantContents(t, contentsOfStore(t, dir), contentsOfStore(t, want))
	}
}

// A key that a typed map would not read is refused.
func TestImportRedisBesideTypedMap(t *testing.T) {
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		t.Run(c.Name(), func(t *testing.T) { importBesideTypedMap(t, c) })
	}
}

func importBesideTypedMap(t *testing.T, c codec.Codec) {
	dir := filepath.Join(t.TempDir(), "s")
	db := openForTest(t, dir)
	m, err := copal.OpenMap[string, int](db, "n", copal.WithCodec(c))
	if err == nil {
		err = errors.Join(m.Set("a", 1), m.Set("z", 2), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	from := rdbFile(t, "\x00\x03n:a\x01\x35", "\x00\x03n:b\x01x", "\x01\x03n:c\x01\x01e", "\x00\x03o:b\x01x", "\xfe\x40\x64\x00\x01k\x01v")
	if code, _, errs := command(nil, "import", dir, from); code != cli.ExitError || !strings.Contains(errs, `key "n:b"`) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	out := mustCommand(t, nil, "import", dir, from, "--skip-bad")
	if out != "imported 3 entries from rdb, 1 in the place of others, 2 left out, 3 verified\n" {
		t.Error(out)
	}
	if got := contentsOfStore(t, dir); len(got) != 4 || got["db%3a100:k"] != `string "\"v\"" until 0` || got["n:a"] != `string "\"5\"" until 0` || got["o:b"] != `string "\"x\"" until 0` {
		t.Errorf("%q", got)
	}
}

// An element too long for a store is an error, or left out.
func TestImportRedisTooLong(t *testing.T) {
	long := rdbString(strings.Repeat("m", 70_000))
	from := rdbFile(t, "\x02\x01s\x02"+long+"\x01a", "\x04\x01h\x02"+long+"\x01v\x01f"+long, "\x05\x01z\x02"+rdbString(strings.Repeat("m", importing.MostName))+"12345678"+long+"12345678", "\x02\x01t\x01"+long, "\x00"+long+"\x01v", "\x00\x01k\x01v")
	dir := filepath.Join(t.TempDir(), "s")
	if code, _, errs := command(nil, "import", dir, from); code != cli.ExitError || !strings.Contains(errs, `key "s" has an element with a name of 70000 bytes, and the most is 65504; --skip-bad leaves it out`) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	out := mustCommand(t, nil, "import", dir, from, "--skip-bad")
	if !strings.HasSuffix(out, ", 5 left out, 4 verified\n") {
		t.Error(out)
	}
	if got := contentsOfStore(t, dir); len(got) != 4 || got["s"] != `set ["a"] until 0` {
		t.Errorf("%.1000q", got)
	}
}
