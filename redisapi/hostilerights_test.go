package redisapi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/redisapi/internal/commandtest"

	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// hostileWords are the options of the commands in TestHostileRights, which have names, keys and
// numbers, too.
var hostileWords = strings.Fields(`COUNT LIMIT 0 10 GET BY STORE STOREDIST REPLACE DB 1 WITHSCORES WITHVALUES MATCH * secret* TYPE ALPHA SAMPLES LEN IDX BLOCK 1
	STREAMS GROUP g c > $ - + NX XX EX 100 KEEPTTL LEFT RIGHT MIN MAX REV BYSCORE BYLEX AGGREGATE WEIGHTS FROMMEMBER FROMLONLAT BYRADIUS BYBOX km m ANY
	ON OFF BCAST PREFIX REDIRECT PATTERN USAGE ENCODING OBJECT AFTER FROM NOVALUES SNAPSHOT LIST INFO KILL ID ADDR own:* secret:* __keyspace@0__:*
	__key*__:* -1 -2 2 3 1e300 inf AND OR XOR NOT u8 #0 SET INCRBY OVERFLOW`)

// A user of one map never gets another's data, nor changes any, whatever it sends: commands that are made up of names,
// keys of both maps, options and numbers.
func TestHostileRights(t *testing.T) {
	own := access.User{Name: "own", Tokens: []string{access.Hash("own")}, Write: []string{"own"}}
	_, address := newServer(t, func(s *Server) {
		s.Access = users(t, own, access.User{Name: "all", Tokens: []string{access.Hash("all")}, Write: []string{"*"}})
	})
	all := dial(t, address)
	all.want("AUTH all all", "OK")
	const data = "DATA-OF-OTHERS"
	for _, m := range []string{"own:", "secret:"} {
		value := "mine"
		if m == "secret:" {
			value = data
		}
		for _, words := range []string{"SET %[1]sk %[2]s", "HSET %[1]sh f %[2]s", "RPUSH %[1]sl %[2]s", "SADD %[1]ss %[2]s", "ZADD %[1]sz 1 %[2]s", "GEOADD %[1]sg 1 1 %[2]s", "XADD %[1]sx 1-0 f %[2]s", "PFADD %[1]sp %[2]s"} {
			all.do(fmt.Sprintf(words, m, value))
		}
	}
	dump := func() string {
		list := ""
		for _, key := range strings.Fields("k h l s z g x p") {
			list += all.do("DUMP secret:" + key)
		}
		return list + all.do("PTTL secret:k") + all.do("XINFO GROUPS secret:x")
	}
	before := dump()
	const seed = 38
	r := rand.New(rand.NewPCG(seed, 0))
	word := func() string {
		switch r.IntN(3) {
		case 0:
			return []string{"own:", "secret:", "secret", "own"}[r.IntN(4)] + []string{"k", "h", "l", "s", "z", "g", "x", "p", "*", "*->f", ""}[r.IntN(11)]
		case 1:
			return fmt.Sprint(r.IntN(4))
		}
		return hostileWords[r.IntN(len(hostileWords))]
	}
	var p *peer
	for i := range sized(20_000, 1_000_000) {
		if p == nil {
			p = dial(t, address)
			p.want("AUTH own own", "OK")
			p.do([]string{"PING", "HELLO 3"}[r.IntN(2)])
		}
		cmd := table.Numbered[r.IntN(len(table.Numbered))]
		if slices.Contains([]string{"reply", "quit", "sleep", "auth", "hello", "reset", "monitor", "setname", "setinfo"}, cmd.Name) || cmd.Flags&(command.Blocking|command.PubSub) != 0 {
			continue
		}
		words := strings.ReplaceAll(cmd.FullName(), "|", " ")
		least := max(cmd.Arity, -cmd.Arity)
		for len(strings.Fields(words)) < least || cmd.Arity < 0 && r.IntN(3) > 0 {
			words += " " + word()
		}
		p.send(words)
		for p.send("ECHO end"); ; {
			got, err := commandtest.ReadReply(p.r)
			if err != nil { // it was closed, as an end of its own
				p.nc.Close()
				p = nil
				break
			}
			if strings.Contains(got, data) || strings.Contains(got, `"secret:k"`) && !strings.Contains(words, "secret:k") {
				t.Fatalf("command %d, %s: %.200s", i, words, got)
			}
			if got == `"end"` {
				break
			}
			if got == "QUEUED" && r.IntN(2) == 0 {
				p.send([]string{"EXEC", "DISCARD"}[r.IntN(2)])
				p.send("ECHO end")
				for got != `"end"` {
					if got = p.read(); strings.Contains(got, data) {
						t.Fatalf("command %d, %s: %.200s", i, words, got)
					}
				}
				break
			}
			if got == "QUEUED" {
				break
			}
		}
	}
	if after := dump(); after != before {
		t.Errorf("the data of others has changed")
	}
	all.want("PING", "PONG")
}
