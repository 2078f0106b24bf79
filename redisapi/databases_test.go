package redisapi

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/commandtest"
	"github.com/copaldb/copal/redisapi/internal/events"
)

// Commands in one database leave the others unchanged. Among the keys are some of database 0 that
// sort next to those of other databases.
func TestDatabasesAgainstAModel(t *testing.T) {
	s, address := newServer(t)
	c := dial(t, address)
	names := []string{"a", "b", "db", "db%3a", "db%3a0:a", "db%3a1", "db%3a1;", "db%3a10", "db%3a16:a", "db%3a2x:a", "db%3a01:a", "db%3b", "db:1", "e", "\xff"}
	rng := rand.New(rand.NewPCG(1, 16))
	var model [command.Databases]map[string]string
	for n := range model {
		model[n] = map[string]string{}
	}
	used := []int{0, 0, 1, 2, 10, 15}
	at := 0
	pick := func() string { return names[rng.IntN(len(names))] }
	quoted := func(key string) string { return fmt.Sprintf("%q", key) }
	for step := range 4000 {
		key := pick()
		switch rng.IntN(40) {
		case 0:
			c.want("FLUSHDB", "OK")
			model[at] = map[string]string{}
		case 1:
			other := used[rng.IntN(len(used))]
			c.want(fmt.Sprint("SWAPDB ", at, " ", other), "OK")
			model[at], model[other] = model[other], model[at]
		case 2, 3, 4, 5:
			other := used[rng.IntN(len(used))]
			value, has := model[at][key]
			_, there := model[other][key]
			switch {
			case other == at:
				c.want(fmt.Sprint("MOVE ", quoted(key), " ", other), "(error) ERR source and destination objects are the same")
			case has && !there:
				c.want(fmt.Sprint("MOVE ", quoted(key), " ", other), "1")
				delete(model[at], key)
				model[other][key] = value
			default:
				c.want(fmt.Sprint("MOVE ", quoted(key), " ", other), "0")
			}
		case 6, 7, 8, 9, 10, 11, 12, 13:
			at = used[rng.IntN(len(used))]
			c.want(fmt.Sprint("SELECT ", at), "OK")
		case 14, 15, 16, 17:
			want := "0"
			if _, has := model[at][key]; has {
				want = "1"
			}
			c.want("DEL "+quoted(key), want)
			delete(model[at], key)
		case 18:
			got := c.do("RANDOMKEY")
			if name := strings.Trim(got, `"`); len(model[at]) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(model[at])), func(k string) bool { return quoted(k) == got }) || len(model[at]) == 0 && got != "nil" {
				t.Errorf("RANDOMKEY of %d: %s", at, name)
			}
		default:
			value := fmt.Sprint(step)
			c.want("SET "+quoted(key)+" "+value, "OK")
			model[at][key] = value
		}
		c.want("DBSIZE", fmt.Sprint(len(model[at])))
		if step%20 > 0 {
			continue
		}
		keys := slices.Sorted(maps.Keys(model[at]))
		list := ""
		for _, key := range keys {
			list += " " + quoted(key)
			c.want("GET "+quoted(key), quoted(model[at][key]))
		}
		c.want("KEYS *", "["+strings.TrimPrefix(list, " ")+"]")
		var found []string
		for cursor := "0"; ; {
			var page []string
			cursor, page = scanPage(t, c, cursor)
			if found = append(found, page...); cursor == "0" {
				break
			}
		}
		if slices.Sort(found); !slices.Equal(found, keys) {
			t.Fatalf("step %d, database %d: SCAN %q, want %q", step, at, found, keys)
		}
		for n := range model {
			for key, value := range model[n] {
				if got, _ := s.DB.Raw().Get(command.Key(n, []byte(key))); string(got) != value {
					t.Fatalf("step %d: database %d has %q: %q, want %q", step, n, key, got, value)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("step %d", step)
		}
	}
}

// scanPage takes two keys of a walk.
func scanPage(t *testing.T, c *peer, cursor string) (next string, keys []string) {
	reply := c.do("SCAN " + cursor + " COUNT 2")
	words := commandtest.Split(t, strings.NewReplacer("[", " ", "]", " ").Replace(reply))
	return words[0], words[1:]
}

// A database is the keys of a map that is called after it.
func TestDatabaseIsAMap(t *testing.T) {
	s, address := newServer(t)
	c := dial(t, address)
	c.want("SELECT 3", "OK")
	c.want(`SET "a b" "\"text\""`, "OK")
	m, err := copal.OpenMap[string, string](s.DB, "db:3")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := m.Load("a b"); v != "text" || err != nil {
		t.Error(v, err)
	}
	if err := m.Set("of", "Go"); err != nil {
		t.Fatal(err)
	}
	c.want("GET of", `"\"Go\""`)
	for n := range command.Databases {
		for _, key := range []string{"", "k", "db%3a4:k"} {
			raw := command.Key(n, []byte(key))
			if got, inner := command.DatabaseOf(raw); n > 0 && (got != n || string(inner) != key) {
				t.Errorf("%q is %q in database %d", raw, inner, got)
			}
			if n > 0 && !bytes.HasPrefix(raw, copal.MapPrefix(fmt.Sprint("db:", n))) {
				t.Errorf("%q is not in the map of database %d", raw, n)
			}
		}
	}
}

// Notifications name the database. They and other messages show keys without its prefix.
func TestDatabasesAreTold(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		s.notifies(events.All | events.Keyspace | events.Keyevent | events.Miss)
		listener, waiter, tracker, b := dial(), dial(), dial(), dial()
		listener.do("PSUBSCRIBE __key*")
		b.do("SELECT 1")
		b.do("SET k 1")
		listener.wantNext(`["pmessage" "__key*" "__keyspace@1__:k" "set"]`)
		listener.wantNext(`["pmessage" "__key*" "__keyevent@1__:set" "k"]`)
		b.do("GET none")
		listener.wantNext(`["pmessage" "__key*" "__keyspace@1__:none" "keymiss"]`)
		listener.wantNext(`["pmessage" "__key*" "__keyevent@1__:keymiss" "none"]`)
		b.do("MOVE k 2")
		listener.wantNext(`["pmessage" "__key*" "__keyspace@1__:k" "move_from"]`)
		listener.wantNext(`["pmessage" "__key*" "__keyevent@1__:move_from" "k"]`)
		listener.wantNext(`["pmessage" "__key*" "__keyspace@2__:k" "move_to"]`)
		listener.wantNext(`["pmessage" "__key*" "__keyevent@2__:move_to" "k"]`)

		waiter.do("SELECT 1")
		waiter.send("BLPOP list 0")
		synctest.Wait()
		other := dial()
		other.do("RPUSH list zero") // of database 0
		synctest.Wait()
		b.do("RPUSH list one")
		waiter.wantNext(`["list" "one"]`)
		other.want("LRANGE list 0 -1", `["zero"]`)
		waiter.send("BZMPOP 0 1 scores MIN")
		synctest.Wait()
		if err := s.DB.Raw().SortedSet(command.Key(1, []byte("scores"))).Set("a", 1); err != nil { // by the program itself
			t.Fatal(err)
		}
		waiter.wantNext(`["scores" [["a" "1"]]]`)

		tracker.do("HELLO 3")
		tracker.do("CLIENT TRACKING ON")
		tracker.do("SELECT 1")
		tracker.do("GET tracked")
		b.do("SET tracked 1")
		tracker.wantNext(`>["invalidate" ["tracked"]]`)

		tracker.want("CLIENT TRACKING OFF", "OK")
		monitor := dial()
		monitor.do("MONITOR")
		b.do("GET shown")
		if line := monitor.read(); !strings.Contains(line, "[1 ") || !strings.HasSuffix(line, `"GET" "shown"`) {
			t.Error(line)
		}
		if info := b.do("CLIENT INFO"); !strings.Contains(info, " db=1 ") {
			t.Error(info)
		}
		if info := b.do("INFO keyspace"); !strings.Contains(info, "db0:keys=1,") || !strings.Contains(info, "db1:keys=1,") || !strings.Contains(info, "db2:keys=1,") {
			t.Error(info)
		}
	})
}
