package redisapi

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"
)

// otherEvents are the differences of events from those of Redis: for the manual, and as patterns of
// the requests of the scripts whose events differ from those of redis-server 7.0.
var otherEvents = []struct{ manual, requests string }{
	{"A command that leaves a value as before writes nothing, and has no event: `INCRBY k 0`, an `LTRIM` that removes nothing, a list of one element moved to itself", `APPEND w ""|INCRBY w 0|HINCRBY h f 0|PFMERGE (p3 p|all none|h i)|LTRIM (l 0 -1|r .*)|LMOVE (l l|a a) .*|RPOPLPUSH a a|BITFIELD bf SET i5 3 -1 GET i5 3 INCRBY i5 3 1`},
	{"A command that fails has no events. In Redis it may have found a `keymiss` before", "SINTER none v|GEORADIUS none 500.*|XREADGROUP .*none >|XPENDING none g|XCLAIM none.*|XAUTOCLAIM none.*|XINFO .* none.*|SORT words BY n_.*"},
	{"`XREAD` of a missing stream has one `keymiss`, and in Redis two", "XREAD STREAMS .*none.*"},
	{"`XCLAIM` and `XAUTOCLAIM` make the consumer, with its event, also if they claim nothing, as in Redis 7.2", "XAUTOCLAIM s .*|XCLAIM s g b .*"},
}

// listener reads the events of a server in the order of its requests.
type listener struct {
	messages, marks, client, client3 *peer
}

func listen(t *testing.T, address string) *listener {
	l := &listener{dial(t, address), dial(t, address), dial(t, address), dial(t, address)}
	l.client3.do("HELLO 3")
	l.client.do("FLUSHALL")
	l.client.want("CONFIG SET notify-keyspace-events EAmn", "OK")
	l.messages.want("PSUBSCRIBE __keyevent*", `["psubscribe" "__keyevent*" 1]`)
	return l
}

var message = regexp.MustCompile(`^\["pmessage" "__keyevent\*" "__keyevent@(\d+)__:([a-z_-]+)" (".*")\]$`)

// events returns the events since the last call, such as "set k", without those of deadlines that
// have come. The write of a mark follows all of them.
func (l *listener) events() (list []string) {
	l.marks.t.Helper()
	const mark = `"\x00mark"`
	l.marks.send("SET " + mark + " 1")
	l.marks.read()
	for {
		text := l.messages.read()
		found := message.FindStringSubmatch(text)
		if found == nil {
			l.marks.t.Fatalf("%s is no event", text)
		}
		switch db, name, key := found[1], found[2], found[3]; {
		case key == mark && name == "set":
			return list
		case key == mark, name == "expired":
		case db != "0":
			list = append(list, name+" "+key+" in "+db)
		default:
			list = append(list, name+" "+key)
		}
	}
}

// do carries out a request of a script, and returns its events.
func (l *listener) do(line string) []string {
	by, request := l.client, line
	if strings.HasPrefix(line, "3") {
		by, request = l.client3, line[1:]
	}
	by.send(request[1:])
	if request[0] == '>' {
		by.read()
	}
	return l.events()
}

// TestEventsLikeRedis carries out the requests of the scripts, and others, here and by
// redis-server, and compares the events of each.
func TestEventsLikeRedis(t *testing.T) {
	theirs := redisServer(t)
	_, ours := newServer(t)
	n, met := 0, make([]bool, len(otherEvents))
	for _, name := range strings.Fields("events.list bits.txt databases.txt dump.txt geo.txt hashes.txt hyperloglog.txt keys.txt lists.txt sets.txt sort.txt sortedsets.txt streams.txt strings.txt transactions.txt") {
		file, err := os.Open(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		a, b := listen(t, ours), listen(t, theirs)
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			line := lines.Text()
			if request := strings.TrimPrefix(line, "3"); !strings.HasPrefix(request, ">") && !strings.HasPrefix(request, "/") || len(commandtest.Split(t, request[1:])) == 0 {
				continue
			}
			n++
			got, want := strings.Join(a.do(line), ", "), strings.Join(b.do(line), ", ")
			if got == want {
				continue
			}
			at := slices.IndexFunc(otherEvents, func(o struct{ manual, requests string }) bool {
				ok, _ := regexp.MatchString("^("+o.requests+")$", strings.TrimLeft(line, "3>/ "))
				return ok
			})
			if at >= 0 {
				met[at] = true
				continue
			}
			t.Errorf("%s: %s\ngot  %s\nwant %s", name, line, got, want)
		}
	}
	for i, o := range otherEvents {
		if !met[i] {
			t.Errorf("%s: no request differs", o.requests)
		}
	}
	t.Logf("%d requests", n)
}
