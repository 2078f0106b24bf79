package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/importers"
	"github.com/copaldb/copal/cmd/copal/internal/importing"
	"github.com/copaldb/copal/cmd/copal/internal/scratch"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/redisserver"
)

// storeOfAll makes a store with maps of two codecs, values of all sizes, deadlines, and a
// collection of each kind that servers have. One has more elements than are written at once.
func storeOfAll(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "all")
	db := openForTest(t, dir)
	fillForMoving(t, db, rand.New(rand.NewPCG(5, 6)), 5000, []int{0, 1, 127, 4095, 1 << 20, 1<<20 + 1, 3 << 20})
	raw, words := db.Raw(), make([][]byte, 5000)
	for i := range words {
		words[i] = fmt.Appendf(nil, "word %d", i)
	}
	set, err := copal.OpenSet[string](db, "set of words")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range words {
		_, failed := set.Add(string(w))
		err = errors.Join(err, failed)
	}
	scores := map[string]float64{"low": -1e300, "same": 1, "also": 1, "\xff": 0.1, "most": math.Inf(1)}
	err = errors.Join(err, raw.List([]byte("list")).PushBack(words...), raw.SortedSet([]byte("scored")).SetAll(scores),
		raw.ExpireAt([]byte("scored"), time.Date(2999, 1, 1, 0, 0, 0, 5e6, time.UTC)), admin.DeclareMap(db, "declared"), raw.Set([]byte("declared:a"), nil),
		admin.Put(db, &admin.Entry{Key: []byte("picture"), Value: []byte("P"), Content: "image/png"}))
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// entryLines returns the lines of an export without the first and the last.
func entryLines(export string) (lines []string) {
	for line := range strings.Lines(export) {
		if !strings.HasPrefix(line, `{"copal":`) && !strings.HasPrefix(line, `{"end":`) {
			lines = append(lines, line)
		}
	}
	return lines
}

func wantSameEntries(t *testing.T, what, got, want string) {
	t.Helper()
	g, w := entryLines(got), entryLines(want)
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s: line %d is %.200q; want %.200q", what, i, g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Fatalf("%s: %d lines; want %d", what, len(g), len(w))
	}
}

func writeFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "dump.ndjson")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExportAndImportByCopalServe exports from a server the same bytes as from the directory, and
// imports them into an empty one, with codecs and types.
func TestExportAndImportByCopalServe(t *testing.T) {
	dir := storeOfAll(t)
	address, stopFirst := serveCopal(t, dir)
	dialRedis(t, address).do("XADD", "stream", "1-1", "field", "value")
	want := mustCommand(t, nil, "export", dir)
	at := "redis://" + address
	file := filepath.Join(t.TempDir(), "dump.ndjson")
	var report struct{ Entries, Seq, Bytes int64 }
	if err := json.Unmarshal([]byte(mustCommand(t, nil, "export", at, file, "--json")), &report); err != nil || report.Seq == 0 {
		t.Errorf("%+v, %v", report, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	wantSameEntries(t, "the export of the server", got, want)
	for _, args := range [][]string{{"--map", "json:\xff"}, {"--prefix", "set", "--prefix", "list"}, {"--after", "list"}, {"--map", "binary:\xff", "--after", "json"}} {
		wantSameEntries(t, fmt.Sprint(args), mustCommand(t, nil, append([]string{"export", at}, args...)...), mustCommand(t, nil, append([]string{"export", dir}, args...)...))
	}
	if code, _, told := command(nil, "export", at, "--map", "nowhere"); code != cli.ExitNotFound || !strings.Contains(told, "map nowhere") {
		t.Errorf("exit code %d, %q", code, told)
	}

	second := filepath.Join(t.TempDir(), "second")
	address, stop := serveCopal(t, second)
	to := "redis://" + address
	if out := mustCommand(t, nil, "import", to, file); out != fmt.Sprintf("imported %d entries from copal\n", report.Entries) {
		t.Errorf("%q", out)
	}
	wantSameEntries(t, "what was imported", mustCommand(t, nil, "export", to), want)
	wantCommand(t, "no differences\n", "", "diff", at, to)
	if out := mustCommand(t, nil, "import", to, file); !strings.Contains(out, fmt.Sprintf(", %d in the place of others\n", report.Entries)) {
		t.Errorf("%q", out)
	}
	wantCommand(t, "no differences\n", "", "diff", dir, to)
	wantCommand(t, "no differences\n", "", "diff", to, dir)
	stop()
	stopFirst()
	third := filepath.Join(t.TempDir(), "third")
	mustCommand(t, nil, "import", third, file)
	sameContent(t, dir, third)
	wantCommand(t, "no differences\n", "", "diff", dir, second)
}

// TestExportAndImportByRedis exports from a Redis the entries that were imported into it. A Redis
// knows no codecs.
func TestExportAndImportByRedis(t *testing.T) {
	_, address := redisserver.Start(t)
	at, dir := "redis://"+address, storeOfAll(t)
	want := mustCommand(t, nil, "export", dir)
	mustCommand(t, nil, "import", at, writeFile(t, want))
	code, got, told := command(nil, "export", at)
	if code != 0 || !strings.HasPrefix(told, "copal: the server has no snapshots") || !strings.HasPrefix(got, `{"copal":"export","version":1,"seq":0,"time":"`) {
		t.Fatalf("exit code %d: %.200q, %q", code, got, told)
	}
	back := filepath.Join(t.TempDir(), "back")
	mustCommand(t, strings.NewReader(got), "import", back)
	list := contentOf(t, back)
	for i, e := range contentOf(t, dir) {
		if e.Codec, e.Schema, e.Content = "", "", ""; i >= len(list) || fmt.Sprint(list[i]) != fmt.Sprint(e) {
			t.Fatalf("entry %d is %.200q; want %.200q", i, fmt.Sprint(list[min(i, len(list)-1)]), fmt.Sprint(e))
		}
	}
	for _, args := range [][]string{{dir, at}, {at, dir}} {
		if code, out, told := command(nil, "diff", args[0], args[1]); code != 0 || out != "no differences\n" {
			t.Errorf("diff %q: exit code %d: %q, %q", args, code, out, told)
		}
	}
	typed := string(copal.MapPrefix("users")) + "alice"
	db := openForTest(t, dir)
	users, err := copal.OpenMap[string, user](db, "users")
	err = errors.Join(err, users.Set("alice", user{"Alice", 28}), admin.Put(db, &admin.Entry{Key: []byte("page"), Value: []byte("<p>"), Content: "text/html"}), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	mustCommand(t, nil, "set", at, typed, `{"Name":"Alice","Age":29}`)
	mustCommand(t, nil, "set", at, "page", "<b>")
	if _, out, _ := command(nil, "diff", dir, at); out != "~ page\n    <p> → <b>\n~ users:alice\n    Age: 28 → 29\n2 entries differ: 0 gone, 0 new, 2 changed\n" {
		t.Errorf("%q", out)
	}
	mustCommand(t, nil, "del", at, typed, "page")
	file := writeFile(t, strings.Join(strings.SplitAfter(got, "\n")[:20], ""))
	if code, _, told := command(nil, "export", at, file, "--continue"); code != cli.ExitError || !strings.Contains(told, "with --mixed") {
		t.Errorf("exit code %d, %q", code, told)
	}
	mustCommand(t, nil, "export", at, file, "--continue", "--mixed")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantSameEntries(t, "an export that was gone on with", string(text), strings.ReplaceAll(got, `{"copal":"continued"`, ""))
}

// TestDiffOfServers prints the differences of stores on servers as it does those of directories.
func TestDiffOfServers(t *testing.T) {
	one, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "other")
	for _, dir := range []string{one, other} {
		db := openForTest(t, dir)
		users, err := copal.OpenMap[string, user](db, "users")
		set, failed := copal.OpenSet[string](db, "s")
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		raw := db.Raw()
		age := 28
		if dir == other {
			age = 29
			err = errors.Join(raw.Set([]byte("new"), []byte("x")), raw.List([]byte("l")).PushFront([]byte("0")), raw.Hash([]byte("h")).Set("b", []byte("2")))
			_, add := set.Add("m")
			err = errors.Join(err, add)
		} else {
			err = raw.Set([]byte("gone"), []byte("y"))
		}
		_, add := set.Add("both")
		err = errors.Join(err, add, users.Set("alice", user{"Alice", age}), raw.List([]byte("l")).PushBack([]byte("a"), []byte("b")),
			raw.Hash([]byte("h")).Set("a", []byte("1")), raw.SortedSet([]byte("z")).Set("m", float64(age)), db.Close())
		if err != nil {
			t.Fatal(err)
		}
	}
	want := mustCommand(t, nil, "diff", one, other)
	wantJSON := withoutRecords(mustCommand(t, nil, "diff", one, other, "--json", "users:"))
	if !strings.HasSuffix(want, "\n7 entries differ: 1 gone, 1 new, 5 changed\n") {
		t.Fatalf("%q", want)
	}
	first, _ := serveCopal(t, one)
	second, _ := serveCopal(t, other)
	for _, args := range [][]string{{"redis://" + first, "redis://" + second}, {one, "redis://" + second}, {"redis://" + first, other}} {
		wantCommand(t, want, "", append([]string{"diff"}, args...)...)
		if got := withoutRecords(mustCommand(t, nil, "diff", args[0], args[1], "--json", "users:")); got != wantJSON {
			t.Errorf("%q: %q; want %q", args, got, wantJSON)
		}
	}
	if got := mustCommand(t, nil, "diff", "redis://"+first, "redis://"+second, "--json"); strings.Contains(got, `"seq"`) {
		t.Errorf("a server tells no numbers of records: %s", got)
	}
	if got := mustCommand(t, nil, "diff", "redis://"+first, other, "--json", "new"); !strings.Contains(got, `"after":{"text":"x","seq":`) {
		t.Errorf("a directory tells the numbers of records: %s", got)
	}
	wantCommand(t, want, "", "diff", one, other)
}

// withoutRecords leaves out the number and the time of a record, which a server does not have.
func withoutRecords(text string) string {
	for {
		i := strings.Index(text, `,"seq":`)
		if i < 0 {
			return text
		}
		end := i + strings.Index(text[i:], `Z"`) + 2
		text = text[:i] + text[end:]
	}
}

// TestImportFromRedisIntoAServer verifies all entries that it has read, and reports those that have
// changed since.
func TestImportFromRedisIntoAServer(t *testing.T) {
	_, from := redisserver.Start(t)
	fillRedis(t, from, 7, 0)
	dir := filepath.Join(t.TempDir(), "s")
	address, _ := serveCopal(t, dir)
	var report importing.Result
	if err := json.Unmarshal([]byte(mustCommand(t, nil, "import", "redis://"+address, "redis://"+from, "--json")), &report); err != nil {
		t.Fatal(err)
	}
	if report.Entries == 0 || report.Verified != report.Entries || report.Different != 0 || report.Gone != 0 {
		t.Errorf("%+v", report)
	}
	if code, out, told := command(nil, "diff", "redis://"+from, "redis://"+address); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d: %q, %q", code, out, told)
	}

	defer func(n int) { importing.BatchEntries = n }(importing.BatchEntries)
	importing.BatchEntries = 5 // so that much is compared in parts
	c := dialRedis(t, address)
	c.do("FLUSHALL")
	in := &importing.Intake{App: cli.NewApp(nil, io.Discard, io.Discard), Dir: "redis://" + address, Path: "redis://" + from}
	defer in.Close()
	if err := errors.Join(in.Open(), in.Run()); err != nil || in.Result.Verified != report.Entries {
		t.Fatalf("%v, %+v", err, in.Result)
	}
	keys := dialRedis(t, from).list("KEYS", "*")
	c.do("DEL", keys[0])
	c.do("DEL", keys[1])
	c.do("SET", keys[1], "something else")
	in.Result.Verified = 0
	err := in.Reach(in.Dir, func(db *copal.DB) error { in.DB = db; return in.Verify() })
	if err != nil || in.Result.Different != 2 || in.Result.Verified != report.Entries-2 {
		t.Errorf("%v, %+v", err, in.Result)
	}
}

// TestInterruptedImportIntoAServer ends an import anywhere. Done again, it gives the same.
func TestInterruptedImportIntoAServer(t *testing.T) {
	defer func(n int) { importing.BatchEntries = n }(importing.BatchEntries)
	importing.BatchEntries = 7
	dir := storeOf(t, 40)
	db := openForTest(t, dir)
	err := errors.Join(db.Raw().Hash([]byte("hash")).SetAll(map[string][]byte{"a": []byte("1"), "b": []byte("2"), "c": nil}), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, mustCommand(t, nil, "export", dir))
	address, _ := serveCopal(t, filepath.Join(t.TempDir(), "to"))
	at := "redis://" + address
	for most := 1; ; most += 9 {
		in := &importing.Intake{App: appUntil(most), Dir: at, Path: file}
		err := in.Open()
		if err == nil {
			err = in.Reach(at, in.Into)
		}
		in.Close()
		if err == nil {
			break
		}
		if !errors.Is(err, cli.ErrInterrupted) && !errors.Is(err, context.Canceled) || most > 1000 {
			t.Fatal(err)
		}
		if in.DB != nil && !strings.Contains(err.Error(), "done again from the beginning gives the same") {
			t.Error(err)
		}
	}
	wantCommand(t, "no differences\n", "", "diff", dir, at)
}

// endsAfter is a reader whose user interrupts when all was read.
type endsAfter struct {
	io.Reader
	cancel context.CancelFunc
}

func (r *endsAfter) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		r.cancel()
		select {} // there might be more
	}
	return n, err
}

// TestInterruptedImportWritesWhatItHasRead has an entry that was read on the server, and says so.
func TestInterruptedImportWritesWhatItHasRead(t *testing.T) {
	address, _ := serveCopal(t, filepath.Join(t.TempDir(), "s"))
	at, lines := "redis://"+address, strings.Builder{}
	for i := range 3000 { // more than is read to detect the format, and less than is written together
		fmt.Fprintf(&lines, "{\"key\":\"key %d\",\"value\":\"%040d\"}\n", i, i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var told bytes.Buffer
	a := cli.NewApp(&endsAfter{strings.NewReader(lines.String()), cancel}, io.Discard, &told)
	a.Ctx = ctx
	if code := carryOut(a, []string{"import", at}); code != cli.ExitError || !strings.HasPrefix(told.String(), "copal: interrupted") {
		t.Errorf("exit code %d, %q", code, told.String())
	}
	wantCommand(t, "3000\n", "", "count", at)
}

// TestImportBySocket goes through the server that has the lock, and goes by the types in the log.
func TestImportBySocket(t *testing.T) {
	needSockets(t)
	dir := filepath.Join(t.TempDir(), "s")
	db := openForTest(t, dir)
	typed, err := copal.OpenMap[string, user](db, "typed")
	if err = errors.Join(err, typed.Set("alice", user{"Alice", 28}), db.Close()); err != nil {
		t.Fatal(err)
	}
	_, from := redisserver.Start(t)
	c := dialRedis(t, from)
	c.do("SET", "typed:bob", `{"Name":"Bob","Age":1}`)
	c.do("SET", "typed:carol", `{"Name":1}`)
	c.do("SET", "k", "v")
	s := serve(t, dir, "--redis", "127.0.0.1:0")
	code, out, told := command(nil, "import", dir, "redis://"+from, "--skip-bad")
	if code != 0 || out != "imported 2 entries from redis, 1 left out, 2 verified\n" || !strings.Contains(told, "is open in a copal serve") || !strings.Contains(told, "typed:carol") {
		t.Errorf("exit code %d: %q, %q", code, out, told)
	}
	if code, _, told := command(nil, "import", dir, writeFile(t, `{"key":"a","value":1}`), "--resume"); code != cli.ExitUsage || !strings.Contains(told, "--resume needs a directory") {
		t.Errorf("exit code %d, %q", code, told)
	}
	s.end()
	db = openForTest(t, dir)
	defer db.Close()
	if typed, err = copal.OpenMap[string, user](db, "typed"); err != nil {
		t.Fatal(err)
	}
	if bob, err := typed.Load("bob"); err != nil || bob != (user{"Bob", 1}) {
		t.Errorf("%+v, %v", bob, err)
	}
}

// TestStreamsOfServers takes streams with groups from a directory through a copal serve and a
// Redis. Parts that a dump of Redis lacks are no difference, and changes are one.
func TestStreamsOfServers(t *testing.T) {
	dir, second := filepath.Join(t.TempDir(), "dir"), filepath.Join(t.TempDir(), "second")
	address, stop := serveCopal(t, dir)
	keys := fillStreams(dialRedis(t, address), rand.New(rand.NewPCG(8, 0)))
	want, export := streamsOf(dialRedis(t, address), keys), mustCommand(t, nil, "export", dir)
	wantSameEntries(t, "the export of the server", mustCommand(t, nil, "export", "redis://"+address), export)
	stop()
	address, _ = serveCopal(t, second)
	served := "redis://" + address
	_, address = redisserver.Start(t)
	redis := "redis://" + address
	for _, at := range []string{served, redis} {
		mustCommand(t, nil, "import", at, writeFile(t, export))
		for _, args := range [][]string{{dir, at}, {at, dir}} {
			if code, out, told := command(nil, "diff", args[0], args[1]); code != 0 || out != "no differences\n" {
				t.Errorf("diff %q: exit code %d: %q, %q", args, code, out, told)
			}
		}
	}
	wantSameEntries(t, "what was imported", mustCommand(t, nil, "export", served), export)
	if code, out, told := command(nil, "diff", served, redis); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d: %q, %q", code, out, told)
	}
	third := filepath.Join(t.TempDir(), "third")
	mustCommand(t, strings.NewReader(mustCommand(t, nil, "export", redis)), "import", third)
	address, _ = serveCopal(t, third)
	for _, at := range []string{served, redis, "redis://" + address} {
		for i, got := range streamsOf(dialRedis(t, strings.TrimPrefix(at, "redis://")), keys) {
			if got != want[i] {
				t.Errorf("%s: %q\n%.500s\nwant %.500s", at, keys[i], got, want[i])
			}
		}
	}
	c := dialRedis(t, strings.TrimPrefix(redis, "redis://"))
	c.do("DEL", keys[1])
	c.do("XGROUP", "CREATECONSUMER", keys[2], "first", "another")
	code, out, _ := command(nil, "diff", dir, redis)
	if lines := strings.Split(out, "\n"); code != 0 || len(lines) != 5 || !strings.HasPrefix(lines[0], "- "+cli.ShowKey([]byte(keys[1]))+"\t(stream of ") || lines[1] != "~ "+cli.ShowKey([]byte(keys[2])) || !strings.Contains(lines[2], "another") {
		t.Errorf("exit code %d: %q", code, out)
	}
}

// TestImportedStreamsOfLaterRedis verifies in a Redis of before 7.2 the parts that it keeps: not
// the time when a consumer last got an entry.
func TestImportedStreamsOfLaterRedis(t *testing.T) {
	_, address := redisserver.Start(t)
	c := dialRedis(t, address)
	c.do("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
	c.do("XGROUP", "CREATECONSUMER", "s", "g", "c")
	dump, _ := c.do("DUMP", "s").([]byte)
	body := dump[1 : len(dump)-10] // it ends in when the consumer was seen, and that nothing is pending
	file := "REDIS0011\xfe\x00\x15\x01s" + string(body[:len(body)-1]) + "\x01\x00\x00\x00\x00\x00\x00\x00\x00\xff" + strings.Repeat("\x00", 8)
	dir := filepath.Join(t.TempDir(), "dir")
	for _, to := range []string{"redis://" + address, dir} {
		if out := mustCommand(t, nil, "import", to, writeFile(t, file)); !strings.HasSuffix(out, " 1 verified\n") {
			t.Errorf("%q", out)
		}
	}
	if code, out, _ := command(nil, "diff", dir, "redis://"+address); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d: %q", code, out)
	}
}

// rewriting returns the address of a proxy that rewrites the lines of the server at address.
func rewriting(t *testing.T, address string, rewrite func(line string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				client.Close()
				return
			}
			go func() {
				io.Copy(server, client)
				server.Close()
			}()
			go func() {
				defer client.Close()
				in := bufio.NewReader(server)
				for line, err := in.ReadString('\n'); err == nil; line, err = in.ReadString('\n') {
					io.WriteString(client, rewrite(line))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestModulesOfServers: a value of a module is an error that names its key. Export leaves it out
// where that is asked for, and diff compares the rest.
func TestModulesOfServers(t *testing.T) {
	_, address := redisserver.Start(t)
	c := dialRedis(t, address)
	c.do("HSET", "json", "f", "v")
	c.do("SET", "k", "v")
	at, dir := "redis://"+rewriting(t, address, func(line string) string { return strings.Replace(line, "+hash\r", "+ReJSON-RL\r", 1) }), filepath.Join(t.TempDir(), "dir")
	const says = `key "json": a ReJSON-RL, which cannot be read`
	if code, _, told := command(nil, "export", at); code != cli.ExitError || !strings.Contains(told, says) || !strings.Contains(told, "--skip-bad leaves out") {
		t.Errorf("exit code %d, %q", code, told)
	}
	if code, out, told := command(nil, "export", at, "--skip-bad"); code != cli.ExitError || strings.Count(out, "\n") != 3 || !strings.Contains(told, says) {
		t.Errorf("exit code %d, %q, %q", code, out, told)
	}
	mustCommand(t, nil, "import", dir, "redis://"+address)
	mustCommand(t, nil, "set", dir, "l", "v")
	mustCommand(t, strings.NewReader(`{"key":"json","value":1}`), "import", dir)
	if code, out, told := command(nil, "diff", dir, at); code != cli.ExitError || !strings.Contains(told, says) || out != "- l\tv\n1 entry differs: 1 gone, 0 new, 0 changed\n" {
		t.Errorf("exit code %d, %q, %q", code, out, told)
	}
	if code, out, told := command(nil, "copy", at, dir, "--replace"); code != cli.ExitError || !strings.Contains(told, says) {
		t.Errorf("exit code %d, %q, %q", code, out, told)
	}
}

// TestStatOfServers prints the counts of servers.
func TestStatOfServers(t *testing.T) {
	dir := storeOf(t, 100)
	address, _ := serveCopal(t, dir)
	var s upkeep.Server
	if err := json.Unmarshal([]byte(mustCommand(t, nil, "stat", "redis://"+address, "--json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.Server != "copal serve" || s.Keys != 100 || s.Records == nil || *s.Records < 100 || s.LogBytes == nil || *s.LogBytes == 0 || s.MemoryBytes == nil || *s.MemoryBytes == 0 || s.FileBytes != nil {
		t.Errorf("%+v", s)
	}
	out := mustCommand(t, nil, "stat", "redis://"+address)
	for _, line := range []string{"server         copal serve\n", "keys           100\n", "segments       1\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("%q does not say %q", out, line)
		}
	}
	_, address = redisserver.Start(t)
	at := "redis://" + address
	mustCommand(t, nil, "set", at, "k", "v")
	s = upkeep.Server{}
	if err := json.Unmarshal([]byte(mustCommand(t, nil, "stat", at, "--json")), &s); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.Server, "redis ") && !strings.HasPrefix(s.Server, "valkey ") || s.Keys != 1 || s.Records != nil || s.MemoryBytes == nil || s.Nodes != 0 {
		t.Errorf("%+v", s)
	}
	dialRedis(t, address).do("ACL", "SETUSER", "shy", "on", ">word", "+@all", "-info", "~*")
	code, out, told := command(nil, "stat", "redis://shy:word@"+address)
	if code != 0 || !strings.Contains(out, "keys     1\n") || !strings.Contains(told, "info") || strings.Contains(told+out, "word") {
		t.Errorf("exit code %d: %q, %q", code, out, told)
	}
}

// TestStatOfACluster adds up the counts of the masters.
func TestStatOfACluster(t *testing.T) {
	c := redisserver.StartCluster(t)
	at := "redis://" + strings.Join(c.Addresses(), ",")
	for i := range 20 {
		mustCommand(t, nil, "set", at, fmt.Sprint("key ", i), "v")
	}
	var s upkeep.Server
	if err := json.Unmarshal([]byte(mustCommand(t, nil, "stat", at, "--json")), &s); err != nil {
		t.Fatal(err)
	}
	all := int64(0) // the sum of the masters' own counts
	for _, address := range c.Addresses() {
		reply, _ := dialRedis(t, address).do("INFO", "memory").([]byte)
		_, used, _ := strings.Cut(string(reply), "used_memory:")
		used, _, _ = strings.Cut(used, "\r\n")
		n, err := strconv.ParseInt(used, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all += n
	}
	if s.Keys != 20 || s.Nodes != 3 || s.MemoryBytes == nil || *s.MemoryBytes < all/int64(len(c.Addresses()))*2 {
		t.Errorf("%+v; all nodes use %d", s, all)
	}
	dir := filepath.Join(t.TempDir(), "d")
	mustCommand(t, strings.NewReader(mustCommand(t, nil, "export", at)), "import", dir)
	if code, out, told := command(nil, "diff", dir, at); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d: %q, %q", code, out, told)
	}
	var lines strings.Builder // of a key that comes often: the last counts
	for i := range 200 {
		fmt.Fprintf(&lines, "{\"key\":\"a\",\"value\":%d}\n", i)
	}
	lines.WriteString("{\"key\":\"b\",\"value\":1}\n")
	mustCommand(t, nil, "import", at, writeFile(t, lines.String()))
	wantCommand(t, "199", "", "get", at, "a")
}

// TestSchemaOfServers finds the types by the values.
func TestSchemaOfServers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	db := openForTest(t, dir)
	err := error(nil)
	for _, name := range []string{"users", "odd: name"} {
		m, failed := copal.OpenMap[string, user](db, name)
		err = errors.Join(err, failed, m.Set("alice", user{"Alice", 28}), m.Set("bob", user{"Bob", 1}))
	}
	if err := errors.Join(err, db.Raw().Set([]byte("users:raw"), []byte("1")), db.Close()); err != nil {
		t.Fatal(err)
	}
	address, _ := serveCopal(t, dir)
	at := "redis://" + address
	for _, args := range [][]string{{}, {"--json"}, {"--ts"}, {"--go"}, {"--json-schema"}, {"users"}, {"odd: name", "--json"}} {
		wantCommand(t, mustCommand(t, nil, append([]string{"schema", dir}, args...)...), "", append([]string{"schema", at}, args...)...)
	}
	if code, _, _ := command(nil, "schema", at, "nowhere"); code != cli.ExitNotFound {
		t.Errorf("exit code %d", code)
	}
	if code, _, told := command(nil, "schema", at, "--openapi"); code != cli.ExitUsage || !strings.Contains(told, "/openapi.json") {
		t.Errorf("exit code %d, %q", code, told)
	}
	_, redis := redisserver.Start(t)
	for name, why := range map[string]string{"schema": "keeps no types", "watch": "tells no changes"} {
		if code, _, told := command(nil, name, "redis://"+redis); code != cli.ExitUsage || !strings.Contains(told, name+" needs a directory or a copal serve") || !strings.Contains(told, why) {
			t.Errorf("exit code %d, %q", code, told)
		}
	}
}

// TestShellOnAServer runs a script, whose commands each count at once.
func TestShellOnAServer(t *testing.T) {
	address, _ := serveCopal(t, filepath.Join(t.TempDir(), "s"))
	at := "redis://" + address
	out := mustCommand(t, strings.NewReader("set k 1\nincr k 2\nls\nscan\ncount\nsync\nexport\n"), "shell", at)
	if !strings.HasPrefix(out, "3\nk\nk\t3\n1\n{\"copal\":\"export\"") {
		t.Errorf("%q", out)
	}
	wantCommand(t, "3", "", "get", at, "k")
	for _, line := range []string{"check", "log k", "history 1h", "get k --at 1h", "diff --from 1h", "export --seq"} {
		if code, _, told := command(strings.NewReader(line), "shell", at); code != cli.ExitUsage || !strings.Contains(told, "needs a directory") {
			t.Errorf("%s: exit code %d, %q", line, code, told)
		}
	}
}

// TestSyncOfServers says so where a server cannot promise it.
func TestSyncOfServers(t *testing.T) {
	address, _ := serveCopal(t, filepath.Join(t.TempDir(), "s"))
	wantCommand(t, "", "", "sync", "redis://"+address)
	wantCommand(t, "{\"records\":null}\n", "", "sync", "redis://"+address, "--json")
	_, redis := redisserver.Start(t)
	if code, _, told := command(nil, "sync", "redis://"+redis); code != cli.ExitError || !strings.Contains(told, "cannot promise") {
		t.Errorf("exit code %d, %q", code, told)
	}
}

// TestInstead has each command that needs a directory say why, and hide the password.
func TestInstead(t *testing.T) {
	const server = "redis://me:secret@host:1/2"
	arguments := map[string][]string{"repair": {server, "x"}, "backup": {"x", server}, "restore": {"x", server}, "undo": {server, "--since", "1h"}}
	for name, what := range cli.Instead {
		args := append([]string{name}, arguments[name]...)
		if len(args) == 1 {
			args = append(args, server)
		}
		code, _, told := command(nil, args...)
		if code != cli.ExitUsage || !strings.Contains(told, "redis://me:***@host:1/2 is a server; "+what) || strings.Contains(told, "secret") {
			t.Errorf("%q: exit code %d, %q", args, code, told)
		}
	}
	for _, args := range [][]string{{server}, {"study", "--own", server, "users"}, {"diff", "x", server, "--from", "1h"}, {"export", server, "--seq"}, {"import", server, "x", "--resume"}} {
		if code, _, told := command(nil, args...); code != cli.ExitUsage || strings.Contains(told, "secret") {
			t.Errorf("%q: exit code %d, %q", args, code, told)
		}
	}
	for server, want := range map[string]string{"redis://u:p/a:ss@h:1/2": "redis://u:***@h:1/2", "redis://:p@h": "redis://:***@h", "redis://u@h/1": "redis://u@h/1", "redis://h/1": "redis://h/1", "unix://u:p@/run/s": "unix://u:***@/run/s"} {
		if got := cli.Redacted(server); got != want {
			t.Errorf("%s is shown as %s", server, got)
		}
	}
	known := map[string]bool{"help": true, "token": true, "bench": true, "study": true, "version": true, "completion": true}
	for _, cmd := range newRoot(cli.NewApp(nil, io.Discard, io.Discard)).Commands() {
		known[cmd.Name()] = known[cmd.Name()] || cli.Instead[cmd.Name()] != ""
		for _, name := range cli.OnServers {
			known[cmd.Name()] = known[cmd.Name()] || name == cmd.Name()
		}
		if !known[cmd.Name()] {
			t.Errorf("%s neither takes servers nor says what does instead", cmd.Name())
		}
	}
}

// TestContentTypesOfServers: a copal serve keeps them. Entries for a Redis lose them, and the
// command says so.
func TestContentTypesOfServers(t *testing.T) {
	lines := `{"copal":"export","version":1,"seq":1,"time":"2026-11-21T12:34:00.123Z"}
{"key":"l","collection":"list","elements":1}
{"element":{"base64":"gAAAAAAAAAA="},"value":1}
{"key":"page","content":"text/html","text":"<p>"}
`
	served, _ := serveCopal(t, filepath.Join(t.TempDir(), "s"))
	_, redis := redisserver.Start(t)
	for _, c := range []struct{ at, counted, told, want string }{
		{"redis://" + served, "", "", lines},
		{"redis://" + redis, `"contentTypesLeftOut":1,`, "the content types of 1 entry were left out", strings.Replace(lines, `"content":"text/html",`, "", 1)},
	} {
		code, out, told := command(nil, "import", c.at, writeFile(t, lines), "--json")
		if code != 0 || !strings.Contains(out, c.counted) || c.counted == "" && strings.Contains(out, "contentTypes") || !strings.Contains(told, c.told) || c.told == "" && strings.Contains(told, "content types") {
			t.Errorf("exit code %d: %q, %q", code, out, told)
		}
		wantSameEntries(t, c.at, mustCommand(t, nil, "export", c.at), c.want)
	}
	if code, out, told := command(nil, "diff", "redis://"+served, "redis://"+redis); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d: %q, %q", code, out, told)
	}
	mustCommand(t, strings.NewReader(`{"key":"page","text":"<p>"}`), "import", "redis://"+redis)
	other, _ := serveCopal(t, filepath.Join(t.TempDir(), "other"))
	mustCommand(t, strings.NewReader(strings.Replace(lines, "text/html", "text/plain", 1)), "import", "redis://"+other)
	wantCommand(t, "~ page\n    (content): text/html → text/plain\n1 entry differs: 0 gone, 0 new, 1 changed\n", "", "diff", "redis://"+served, "redis://"+other)
}

// TestLostServer imports into a server that goes away. The error says that the same import can be
// run again.
func TestLostServer(t *testing.T) {
	defer func(n int) { importing.BatchEntries = n }(importing.BatchEntries)
	importing.BatchEntries = 3
	address, stop := serveCopal(t, filepath.Join(t.TempDir(), "s"))
	var told bytes.Buffer
	r, w := io.Pipe()
	a := cli.NewApp(r, io.Discard, &told)
	ended := make(chan int)
	go func() { ended <- carryOut(a, []string{"import", "redis://" + address, "--from", "jsonl"}) }()
	go func() {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, "{\"key\":\"k\",\"value\":1}\n")
		}
	}()
	for c := dialRedis(t, address); c.do("EXISTS", "k") == int64(0); {
	}
	stop()
	if code := <-ended; code != cli.ExitError || !strings.Contains(told.String(), "done again from the beginning gives the same") {
		t.Errorf("exit code %d, %q", code, told.String())
	}
	r.Close()
}

// TestExportOfWhatHasChanged has a key, whose type was another when it was read first.
func TestExportOfWhatHasChanged(t *testing.T) {
	_, address := redisserver.Start(t)
	dialRedis(t, address).do("SADD", "k", "member")
	var told atomic.Int64
	at := "redis://" + rewriting(t, address, func(line string) string {
		if line == "+set\r\n" && told.Add(1) == 2 { // the first one is of the walk through the keys
			return "+hash\r\n"
		}
		return line
	})
	if got := mustCommand(t, nil, "export", at); !strings.Contains(got, `{"key":"k","collection":"set","elements":1}`) || !strings.Contains(got, `{"element":"member"`) {
		t.Error(got)
	}
	if told.Load() < 3 {
		t.Error("it was not read again")
	}
}

// TestImportOfWhatServersDoNotTake names the key of a value that is too long.
func TestImportOfWhatServersDoNotTake(t *testing.T) {
	address, _ := serveCopal(t, filepath.Join(t.TempDir(), "s"))
	in := &importing.Intake{App: cli.NewApp(nil, io.Discard, io.Discard), Far: true}
	err := in.Reach("redis://"+address, func(db *copal.DB) error {
		in.DB, in.To = db, copying.Into(db)
		return in.Put(&importers.Item{Entry: admin.Entry{Key: []byte("long"), Value: make([]byte, 512<<20)}})
	})
	if !errors.Is(err, copal.ErrTooLarge) || !strings.Contains(err.Error(), `key "long"`) {
		t.Error(err)
	}
}

// TestScratchForgets: a read through a scratch yields only the entries of the last request, so that
// it does not take longer each time.
func TestScratchForgets(t *testing.T) {
	address, _ := serveCopal(t, storeOf(t, 3))
	err := cli.NewApp(nil, io.Discard, io.Discard).Reach("redis://"+address, func(db *copal.DB) error {
		from, err := copying.Look(t.Context(), db)
		if err != nil {
			return err
		}
		defer from.Close()
		var s scratch.Scratch
		defer s.Close()
		for e, err := range from.Entries(nil, nil) {
			if err != nil {
				return err
			}
			now, err := s.Take(t.Context(), from, true, &e)
			if err != nil {
				return err
			}
			if n := now.Raw().Len(); n != 1 || !now.Raw().Has(e.Key) {
				t.Errorf("there are %d entries for key %q", n, e.Key)
			}
			now.Close()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRefusalsAreToldOnce of an import into a server that takes nothing.
func TestRefusalsAreToldOnce(t *testing.T) {
	defer func(n int) { importing.BatchEntries = n }(importing.BatchEntries)
	importing.BatchEntries = 2
	_, address := redisserver.Start(t)
	dialRedis(t, address).do("ACL", "SETUSER", "shy", "on", ">word", "+@all", "~people:*")
	file := writeFile(t, strings.Repeat("{\"key\":\"a\",\"value\":1}\n", 3))
	code, _, told := command(nil, "import", "redis://shy:word@"+address, file)
	if code != cli.ExitError || strings.Count(told, "NOPERM") != 1 || strings.Count(told, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, told)
	}
}
