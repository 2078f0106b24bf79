package redisapi

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

// Whatever arguments the commands of copal get, they reply once, and the server and the typed map stay whole. The words
// are those that the commands know, in any place, and rubbish.
func TestHostileArguments(t *testing.T) {
	s, address := newServer(t)
	people, err := copal.OpenMap[string, person](s.DB, "people", copal.WithCodec(codec.Binary))
	if err != nil {
		t.Fatal(err)
	}
	ages, err := copal.OpenMap[int, string](s.DB, "ages", copal.Ordered())
	if err != nil {
		t.Fatal(err)
	}
	p, other := dial(t, address), dial(t, address)
	rng := rand.New(rand.NewPCG(3, 6))
	var names []string
	for _, f := range table.Families {
		for _, cmd := range f.Rows {
			if f.Group == "copal" && len(cmd.Subs) == 0 {
				names = append(names, cmd.Name)
			}
			for _, sub := range cmd.Subs {
				if f.Group == "copal" {
					names = append(names, cmd.Name+" "+sub.Name)
				}
			}
		}
	}
	words := []string{`""`, "people:ada", "ages:1", "ages:9", "ages:", "people:", "a", `"int ages:9"`, "int", "bytes", `"bytes people:b"`, `"bytes "`, `"int "`, `" "`, `"[3]int ages:1"`,
		"REV", "NOVALUES", "COUNT", "AFTER", "SNAPSHOT", "FSYNC", "OPEN", "NEXT", "CLOSE", "PREFIX", "KEY", "UNTIL", "OLD", "IDLE", "SET", "GET", "MSET", "HSET", "RPUSH", "LPOP", "MSETEX", "LINSERT", "NX", "IFEQ", "CONTENT", "LIST", "DECLARE",
		"0", "1", "-1", "9223372036854775807", "99999999999999999999", `"\x00\x00\x00\x00\x00\x00\x00\x00{}"`, `"\x00\x00\x00\x00\x00\x00\x00"`, `"unknown1value"`, `"\xff\xfe"`,
		strings.Repeat("x", 1000)}
	run := func(p *peer, line string) {
		p.send(line)
		p.send("PING x")
		if reply := p.read(); reply == "" {
			t.Errorf("%s: no reply", line)
		}
		p.wantNext(`"x"`)
	}
	for step := range sized(4000, 400_000) {
		line := names[rng.IntN(len(names))]
		for range rng.IntN(6) {
			line += " " + words[rng.IntN(len(words))]
		}
		run(p, line)
		if step%100 == 0 {
			if err := people.Set("bob", bob); err != nil {
				t.Fatal(err)
			}
			if err := ages.Set(step, "x"); err != nil {
				t.Fatal(err)
			}
			other.want("PING", "PONG")
		}
	}
	p.nc.Close()
	if err := people.Set("bob", bob); err != nil {
		t.Fatal(err)
	}
	if now, err := people.Load("bob"); err != nil || now != bob {
		t.Errorf("%v, %v", now, err)
	}
}

// Clients that begin transactions and feeds and disappear leave no view and no goroutine.
func TestHostileSessions(t *testing.T) {
	s, address := newServer(t)
	other := dial(t, address)
	before := runtime.NumGoroutine()
	for i := range sized(200, 5000) {
		p := dial(t, address)
		begin := []string{"COPAL.BEGIN", "COPAL.BEGIN SNAPSHOT", "COPAL.FEED OPEN AFTER 0 OLD", "COPAL.FEED OPEN"}[i%4]
		if reply := p.do(begin); strings.HasPrefix(reply, "(error)") {
			t.Fatal(reply)
		}
		p.send(fmt.Sprint("SET k", i, " ", strings.Repeat("x", 1000)))
		if i%4 == 3 {
			p.send("COPAL.FEED NEXT BLOCK 0 COUNT 1")
		}
		p.nc.Close()
	}
	for s.DB.Stats().Snapshots != 0 || runtime.NumGoroutine() > before+4 { // the server learns that they are gone
		other.want("PING", "PONG")
	}
}

// A range of large values takes memory for the entries of one reply, whatever its COUNT. A feed
// that is not read takes memory for about a MiB of changes.
func TestHostileCounts(t *testing.T) {
	s, address := newServer(t, onDisk(t))
	value := bytes.Repeat([]byte("x"), 100<<10)
	for i := range sized(500, 20_000) {
		if err := s.DB.Raw().Set(fmt.Appendf(nil, "large:%06d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	p, slow, other := dial(t, address), dial(t, address), dial(t, address)
	most := watchMemory()
	slow.do("COPAL.FEED OPEN AFTER 0")
	p.do("COPAL.BEGIN SNAPSHOT")
	for range 20 {
		p.send(`COPAL.RANGE large: "" COUNT 9223372036854775807`)
		if reply := p.read(); !strings.HasPrefix(reply, "[1 ") {
			t.Fatalf("%.50s", reply)
		}
	}
	other.round(1)
	wantMemory(t, "ranges and feeds", most, 48<<20)
}
