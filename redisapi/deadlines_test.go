package redisapi

import (
	"testing"
	"time"
)

// The options of EXPIRE compare the deadline that there is with the one that is given: the same one is neither later
// nor earlier, and no deadline is later than any.
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
