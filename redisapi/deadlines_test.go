package redisapi

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// The options of EXPIRE compare the old deadline with the new one: equal deadlines are neither
// later nor earlier, and a missing deadline is later than any.
func TestExpireOptions(t *testing.T) {
	const year = "4102444800" // 2100
	for _, x := range []struct{ had, option, at, reply, has string }{
		{"", "", year, "1", year},
		{year, "", "4102444801", "1", "4102444801"},
		{"", "NX", year, "1", year},
		{year, "NX", "4102444801", "0", year},
		{"", "XX", year, "0", "-1"},
		{year, "XX", "4102444799", "1", "4102444799"},
		{"", "GT", year, "0", "-1"},
		{year, "GT", "4102444799", "0", year},
		{year, "GT", year, "0", year},
		{year, "GT", "4102444801", "1", "4102444801"},
		{"", "LT", year, "1", year},
		{year, "LT", "4102444799", "1", "4102444799"},
		{year, "LT", year, "0", year},
		{year, "LT", "4102444801", "0", year},
		{"", "XX LT", year, "0", "-1"},
		{year, "XX GT", year, "0", year},
		{year, "LT", "1", "1", "-2"},
		{year, "GT", "1", "0", year},
		{"", "NX", "1", "1", "-2"},
	} {
		piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
			p := dial()
			p.do("SET k v")
			if x.had != "" {
				p.want("EXPIREAT k "+x.had, "1")
			}
			p.want("EXPIREAT k "+x.at+" "+x.option, x.reply)
			if got := p.do("EXPIRETIME k"); got != x.has {
				t.Errorf("of %q, EXPIREAT %s %s leaves %s, want %s", x.had, x.at, x.option, got, x.has)
			}
		})
	}
	piped(t, func(_ *testing.T, _ *Server, dial func() *peer) { // one from now on is later a moment later
		p := dial()
		p.do("SET k v PX 1000")
		p.want("PEXPIRE k 1000 GT", "0")
		time.Sleep(time.Millisecond)
		p.want("PEXPIRE k 1000 GT", "1")
		p.want("PEXPIRE none 1000", "0")
	})
}

// The latest deadlines of Redis are taken. Those that the store does not keep become the last that it does.
func TestLatestDeadlines(t *testing.T) {
	const last = "9223372036854775807"
	kept := strconv.FormatInt(command.LastDeadline-1, 10)
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		p := dial()
		now := time.Now().UnixMilli()
		for _, request := range []string{"SET k v PXAT " + last, fmt.Sprintf("SET k v PX %d", math.MaxInt64-now), "SET k v EXAT 9223372036854775", "PEXPIREAT k " + last,
			fmt.Sprintf("PEXPIRE k %d", math.MaxInt64-now), "EXPIREAT k 9223372036854775", "GETEX k PXAT " + last, fmt.Sprintf("EXPIRE k %d", (math.MaxInt64-now)/1000)} {
			p.do("SET k v")
			if got := p.do(request); strings.Contains(got, "error") {
				t.Errorf("%s: %s", request, got)
			}
			p.want("PEXPIRETIME k", kept)
			p.want("PTTL k", strconv.FormatInt(command.LastDeadline-1-now, 10))
			p.want("GET k", `"v"`)
		}
		for _, request := range []string{fmt.Sprintf("SET k v PX %d", math.MaxInt64-now+1), "PEXPIRE k " + last, "EXPIREAT k 9223372036854776", "EXPIRE k " + last} {
			if got := p.do(request); !strings.Contains(got, "ERR invalid expire time") {
				t.Errorf("%s: %s", request, got)
			}
		}
	})
}
