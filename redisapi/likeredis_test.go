package redisapi

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/hyperloglog"
)

// TestLikeRedis sends random commands of all families to this server and to redis-server, and
// compares the replies and the contents of the keys. Commands that pick elements at random are
// asked for all of them. COPAL_SEED=n runs only one seed.
func TestLikeRedis(t *testing.T) {
	theirs := redisServer(t)
	_, ours := newServer(t)
	seeds, rounds := []uint64{1, 2}, 250
	switch {
	case os.Getenv("COPAL_LONG") == "1":
		seeds, rounds = []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 4000
	case testing.Short():
		rounds = 120
	}
	if s, err := strconv.ParseUint(os.Getenv("COPAL_SEED"), 10, 64); err == nil {
		seeds = []uint64{s}
	}
	for _, seed := range seeds {
		a, b := dial(t, ours), dial(t, theirs)
		if seed%2 == 0 {
			a.do("HELLO 3")
			b.do("HELLO 3")
		}
		a.do("FLUSHALL")
		b.do("FLUSHALL")
		likeRedis(t, seed, rounds, a, b)
	}
}

func likeRedis(t *testing.T, seed uint64, rounds int, a, b *peer) {
	g := &generator{rand.New(rand.NewPCG(seed, 0))}
	var before []string
	differs := func(request, got, want string) {
		t.Helper()
		t.Fatalf("%s\ngot  %s\nwant %s\nbefore:\n%s\nagain with: COPAL_SEED=%d go test -run TestLikeRedis ./redisapi",
			request, got, want, strings.Join(before[max(len(before)-12, 0):], "\n"), seed)
	}
	compare := func(request string, like func(string) string) string {
		t.Helper()
		got, want := like(a.do(request)), like(b.do(request))
		if got != want {
			differs(request, got, want)
		}
		before = append(before, request+" -> "+got)
		return got
	}
	both := func(request string, ordered bool) string {
		t.Helper()
		return compare(request, func(reply string) string { return alike(reply, ordered) })
	}
	families := []func() (string, bool){g.hash, g.set, g.sortedSet, g.lex, g.bits, g.hyperLogLog, g.place, g.any}
	for round := range rounds {
		for _, family := range families {
			both(family())
		}
		for range 12 {
			if request, ordered := g.form(); ordered {
				compare(request, func(reply string) string { return reply })
			} else {
				compare(request, words)
			}
		}
		if round%10 != 9 {
			continue
		}
		for _, key := range strings.Fields(keysOf + " " + keysOfForms()) {
			switch strings.TrimPrefix(both("TYPE "+key, true), "+") {
			case "hash":
				both("HGETALL "+key, false)
			case "set":
				both("SMEMBERS "+key, false)
			case "zset":
				both("ZRANGE "+key+" 0 -1 WITHSCORES", true)
			case "list":
				both("LRANGE "+key+" 0 -1", true)
			case "string":
				mine, other := a.do("GET "+key), b.do("GET "+key)
				if !strings.HasPrefix(other, `"HYLL`) {
					if mine != other {
						differs("GET "+key, mine, other)
					}
					continue
				}
				// The bytes of a HyperLogLog may differ, but each server accepts those of the
				// other. A copy is counted, because Redis stores an estimate in the key that it
				// counts.
				a.do("SET import " + other)
				b.do("SET import " + mine)
				got := both("PFCOUNT import", true)
				both("COPY "+key+" import REPLACE", true)
				if want := both("PFCOUNT import", true); got != want {
					differs("PFCOUNT of the other's "+key, got, want)
				}
				a.do("DEL import")
				b.do("DEL import")
			}
		}
	}
}

var numberText = regexp.MustCompile(`-?\d+\.\d+(e[+-]?\d+)?|-0\b`)

// alike returns a reply without the differences that are allowed: digits that redis-server 7.0
// prints beyond the shortest text of a number, the sign of zero, and the order of elements if
// ordered is false.
func alike(reply string, ordered bool) string {
	reply = numberText.ReplaceAllStringFunc(reply, func(text string) string {
		f, _ := strconv.ParseFloat(text, 64)
		return strconv.FormatFloat(f+0, 'g', 12, 64)
	})
	reply = strings.ReplaceAll(reply, "-0", "0")
	if ordered || strings.HasPrefix(reply, "(error)") {
		return reply
	}
	return words(reply)
}

// words returns the words of a reply, sorted.
func words(reply string) string {
	list := strings.FieldsFunc(reply, func(r rune) bool { return strings.ContainsRune(" []{}", r) })
	slices.Sort(list)
	return strings.Join(list, " ")
}

// generator makes random requests.
type generator struct{ *rand.Rand }

// of returns one of the words.
func (g *generator) of(words string) string {
	list := strings.Fields(words)
	return list[g.IntN(len(list))]
}

// maybe returns the text of f once in n times, and otherwise an empty one.
func (g *generator) maybe(n int, f func() string) string {
	if g.IntN(n) > 0 {
		return ""
	}
	return f()
}

// some returns the texts of at least one and up to most calls of f.
func (g *generator) some(most int, f func() string) string {
	var list []string
	for range 1 + g.IntN(most) {
		list = append(list, f())
	}
	return strings.Join(list, " ")
}

const keysOf = "h1 h2 s1 s2 s3 z1 z2 z3 l1 b1 b2 b3 p1 p2 p3 g1 g2 none"

// key returns one of the keys of a kind, and rarely another. Commands about bits get no
// HyperLogLog, because Redis stores an estimate in it and would return parts of that. Commands
// about places get no other sorted sets. key never returns l1, so that its members keep one score.
func (g *generator) key(kind byte) string {
	for {
		key := g.of(keysOf)
		pair := string([]byte{kind, key[0]})
		if key[0] == kind || g.IntN(400) == 0 && key[0] != 'l' && pair != "bp" && pair != "pb" && pair != "gz" && pair != "zg" {
			return key
		}
	}
}

func (g *generator) member() string { return g.of(`a b c d e f g "" 10 9 aa ab "\x00" "\xff" word`) }
func (g *generator) whole() string {
	return g.of("0 1 2 3 5 -1 -2 -3 10 100 -100 9223372036854775807 -9223372036854775808 x")
}
func (g *generator) float() string {
	return g.of("0 1 2 3 -1 1.5 -2.25 10 1e3 100 +inf -inf 3 4 5 7 8 inf nan x")
}

// index returns a number from -12 to 11.
func (g *generator) index() string { return strconv.Itoa(g.IntN(24) - 12) }

func (g *generator) hash() (string, bool) {
	k := func() string { return g.key('h') }
	pair := func() string { return g.member() + " " + g.of("1 2.5 -7 text \"\" 9223372036854775807 1e2 0.1") }
	number := func() string { return g.of("1 -5 2.5 10 9223372036854775806 -9223372036854775807 x 0.25 inf") }
	switch g.IntN(18) {
	case 0, 1, 2:
		return "HSET " + k() + " " + g.some(4, pair), true
	case 3:
		return "HMSET " + k() + " " + g.some(3, pair), true
	case 4:
		return "HSETNX " + k() + " " + pair(), true
	case 5:
		return "HGET " + k() + " " + g.member(), true
	case 6:
		return "HMGET " + k() + " " + g.some(4, g.member), true
	case 7:
		return g.of("HGETALL HKEYS HVALS") + " " + k(), false
	case 8:
		return "HLEN " + k(), true
	case 9:
		return "HEXISTS " + k() + " " + g.member(), true
	case 10, 11:
		return "HDEL " + k() + " " + g.some(3, g.member), true
	case 12, 13:
		return "HINCRBY " + k() + " " + g.member() + " " + number(), true
	case 14:
		return "HINCRBYFLOAT " + k() + " " + g.member() + " " + number(), true
	case 15:
		return "HSTRLEN " + k() + " " + g.member(), true
	case 16:
		return "HRANDFIELD " + k() + g.of(" 100 0 50 x") + g.maybe(2, func() string { return g.of(" WITHVALUES BAD") }), false
	}
	return "HSCAN " + k() + " 0 COUNT 1000" + g.maybe(2, func() string { return " MATCH " + g.of("* a* ?") }), false
}

func (g *generator) set() (string, bool) {
	k := func() string { return g.key('s') }
	switch g.IntN(14) {
	case 0, 1, 2:
		return "SADD " + k() + " " + g.some(5, g.member), true
	case 3:
		return "SREM " + k() + " " + g.some(3, g.member), true
	case 4:
		return "SCARD " + k(), true
	case 5:
		return "SISMEMBER " + k() + " " + g.member(), true
	case 6:
		return "SMISMEMBER " + k() + " " + g.some(4, g.member), true
	case 7:
		return g.of("SMEMBERS SSCAN") + " " + k() + g.maybe(2, func() string { return " 0 COUNT 1000" }), false
	case 8:
		return "SPOP " + k() + g.of(" 100 0 -1 x"), false
	case 9:
		return "SRANDMEMBER " + k() + g.of(" 100 0 x"), false
	case 10:
		return "SMOVE " + k() + " " + k() + " " + g.member(), true
	case 11:
		return g.of("SINTER SUNION SDIFF") + " " + g.some(3, k), false
	case 12:
		return "SINTERCARD " + g.of("1 2 2 3 0 x") + " " + g.some(3, k) + g.maybe(2, func() string { return " LIMIT " + g.of("0 1 2 -1 x") }), true
	}
	return g.of("SINTERSTORE SUNIONSTORE SDIFFSTORE") + " " + k() + " " + g.some(3, k), true
}

func (g *generator) bound() string {
	return g.maybe(3, func() string { return "(" }) + g.float()
}

func (g *generator) limit() string {
	return g.maybe(3, func() string { return " LIMIT " + g.of("0 1 2 -1 x") + " " + g.of("0 1 2 3 -1 x") })
}

func (g *generator) scores() string { return g.maybe(2, func() string { return " WITHSCORES" }) }

func (g *generator) combine(store bool, kind byte) string {
	k := func() string {
		if g.IntN(6) == 0 {
			return g.key('s')
		}
		return g.key(kind)
	}
	n := 1 + g.IntN(3)
	var list []string
	for range n {
		list = append(list, k())
	}
	out := fmt.Sprint(n, " ", strings.Join(list, " "))
	if g.IntN(12) == 0 {
		out = g.of("0 4 x") + " " + strings.Join(list, " ")
	}
	if g.IntN(3) == 0 {
		out += " WEIGHTS"
		for range n {
			out += " " + g.of("1 2 0.5 -1 0 inf x")
		}
	}
	out += g.maybe(3, func() string { return " AGGREGATE " + g.of("SUM MIN MAX BAD") })
	if !store {
		out += g.scores()
	}
	return out
}

func (g *generator) sortedSet() (string, bool) {
	k := func() string { return g.key('z') }
	pair := func() string { return g.float() + " " + g.member() }
	switch g.IntN(26) {
	case 0, 1, 2, 3:
		return "ZADD " + k() + " " + g.some(4, pair), true
	case 4, 5:
		return "ZADD " + k() + " " + g.some(2, func() string { return g.of("NX XX GT LT CH INCR") }) + " " + g.some(2, pair), true
	case 6:
		return "ZINCRBY " + k() + " " + pair(), true
	case 7:
		return "ZREM " + k() + " " + g.some(3, g.member), true
	case 8:
		return "ZCARD " + k(), true
	case 9:
		return "ZSCORE " + k() + " " + g.member(), true
	case 10:
		return "ZMSCORE " + k() + " " + g.some(3, g.member), true
	case 11:
		return g.of("ZRANK ZREVRANK") + " " + k() + " " + g.member(), true
	case 12:
		return "ZCOUNT " + k() + " " + g.bound() + " " + g.bound(), true
	case 13, 14:
		return "ZRANGE " + k() + " " + g.index() + " " + g.index() + g.maybe(2, func() string { return " REV" }) + g.limit() + g.scores(), true
	case 15:
		return "ZRANGE " + k() + " " + g.bound() + " " + g.bound() + " BYSCORE" + g.maybe(2, func() string { return " REV" }) + g.limit() + g.scores(), true
	case 16:
		return g.of("ZRANGEBYSCORE ZREVRANGEBYSCORE") + " " + k() + " " + g.bound() + " " + g.bound() + g.scores() + g.limit(), true
	case 17:
		return "ZREVRANGE " + k() + " " + g.index() + " " + g.index() + g.scores(), true
	case 18:
		return "ZRANGESTORE " + k() + " " + k() + " " + g.index() + " " + g.index() + g.maybe(2, func() string { return " REV" }), true
	case 19:
		return "ZREMRANGEBYRANK " + k() + " " + g.index() + " " + g.index(), true
	case 20:
		return "ZREMRANGEBYSCORE " + k() + " " + g.bound() + " " + g.bound(), true
	case 21:
		return g.of("ZPOPMIN ZPOPMAX") + " " + k() + g.maybe(2, func() string { return " " + g.whole() }), true
	case 22:
		return "ZMPOP " + g.of("1 2 2 3 0") + " " + g.some(2, k) + " " + g.of("MIN MAX BAD") + g.maybe(2, func() string { return " COUNT " + g.of("1 2 0 x") }), true
	case 23:
		return g.of("ZUNION ZINTER ZDIFF") + " " + g.combine(false, 'z'), true
	case 24:
		return g.of("ZUNIONSTORE ZINTERSTORE ZDIFFSTORE") + " " + k() + " " + g.combine(true, 'z'), true
	}
	switch g.IntN(3) {
	case 0:
		return "ZINTERCARD " + g.of("1 2 0 x") + " " + g.some(2, k) + g.maybe(2, func() string { return " LIMIT " + g.of("0 1 2 -1 x") }), true
	case 1:
		return "ZRANDMEMBER " + k() + g.of(" 100 0 x") + g.scores(), false
	}
	return "ZSCAN " + k() + " 0 COUNT 1000", false
}

// lex is about a sorted set whose members have one score.
func (g *generator) lex() (string, bool) {
	bound := func() string {
		if g.IntN(4) == 0 {
			return g.of("- + x ( [")
		}
		return g.of(`[ (`) + g.of("a b c d e f g 10 9 aa ab word")
	}
	switch g.IntN(7) {
	case 0, 1:
		return "ZADD l1 " + g.some(5, func() string { return "0 " + g.member() }), true
	case 2:
		return "ZLEXCOUNT l1 " + bound() + " " + bound(), true
	case 3:
		return "ZRANGE l1 " + bound() + " " + bound() + " BYLEX" + g.maybe(2, func() string { return " REV" }) + g.limit(), true
	case 4:
		return g.of("ZRANGEBYLEX ZREVRANGEBYLEX") + " l1 " + bound() + " " + bound() + g.limit(), true
	case 5:
		return "ZRANGESTORE z3 l1 " + bound() + " " + bound() + " BYLEX" + g.limit(), true
	}
	if g.IntN(3) > 0 {
		return "ZCARD l1", true
	}
	return "ZREMRANGEBYLEX l1 " + bound() + " " + bound(), true
}

func (g *generator) bits() (string, bool) {
	k := func() string { return g.key('b') }
	bit := func() string {
		if g.IntN(30) == 0 {
			return g.of("-1 x 4294967296")
		}
		return strconv.Itoa(g.IntN(200))
	}
	span := func() string {
		switch g.IntN(4) {
		case 0:
			return ""
		case 1:
			return " " + g.index()
		case 2:
			return " " + g.index() + " " + g.index()
		}
		return " " + g.index() + " " + g.index() + g.of(" BIT BYTE BAD")
	}
	number := func() string { return g.of("u i") + g.of("1 2 5 8 16 31 32 33 63 64 0 65 x") }
	at := func() string { return g.maybe(3, func() string { return "#" }) + bit() }
	value := func() string {
		return g.of("0 1 -1 2 100 255 256 -128 127 65535 2147483648 9223372036854775807 -9223372036854775808 x")
	}
	field := func() string {
		switch g.IntN(4) {
		case 0:
			return "GET " + number() + " " + at()
		case 1:
			return "SET " + number() + " " + at() + " " + value()
		case 2:
			return "INCRBY " + number() + " " + at() + " " + value()
		}
		return "OVERFLOW " + g.of("WRAP SAT FAIL SAT FAIL BAD")
	}
	switch g.IntN(10) {
	case 0, 1:
		return "SETBIT " + k() + " " + bit() + " " + g.of("0 1 1 2"), true
	case 2:
		return "GETBIT " + k() + " " + bit(), true
	case 3, 4:
		return "BITCOUNT " + k() + span(), true
	case 5, 6:
		return "BITPOS " + k() + " " + g.of("0 1 0 1 2 x") + span(), true
	case 7:
		return "BITOP " + g.of("AND OR XOR NOT BAD") + " " + k() + " " + g.some(3, k), true
	case 8:
		return "BITFIELD " + k() + " " + g.some(4, field), true
	}
	if g.IntN(2) == 0 {
		return "BITFIELD_RO " + k() + " " + g.some(2, field), true
	}
	return "SET " + k() + " " + g.of(`"" "\x00" "\xff\xff\xff" "\x0f\xf0" "\xff\x00\x01" "abcdefghijklmnop"`), true
}

func (g *generator) hyperLogLog() (string, bool) {
	k := func() string { return g.key('p') }
	element := func() string { return strconv.Itoa(g.IntN(5000)) }
	switch g.IntN(8) {
	case 0, 1, 2:
		return "PFADD " + k() + " " + g.some(60, element), true
	case 3:
		return "PFADD " + k(), true
	case 4, 5:
		return "PFCOUNT " + k(), true
	case 6:
		return "PFCOUNT " + g.some(3, k), true
	}
	return "PFMERGE " + g.some(3, k), true
}

func (g *generator) place() (string, bool) {
	k := func() string { return g.key('g') }
	lonLat := func() string {
		lon, lat := g.Float64()*360-180, g.Float64()*170-85
		switch g.IntN(4) {
		case 0: // around one place
			lon, lat = 13+g.Float64(), 38+g.Float64()
		case 1: // where east meets west
			if lon = 179.5 + g.Float64(); lon > 180 {
				lon -= 360
			}
		case 2:
			if g.IntN(10) == 0 {
				lat = 88
			}
		}
		return fmt.Sprintf("%.4f %.4f", lon, lat)
	}
	member := func() string { return g.of("a b c d e f g h i j k l m n o p") }
	unit := func() string { return g.of("m km ft mi KM km km BAD") }
	length := func() string { return g.of("0 1 50 100 300 1000 5000 12000 30000 -1 x") }
	options := func() (string, bool) {
		order := g.of("ASC DESC NONE")
		if order == "NONE" {
			order = ""
		}
		text := " " + order + g.maybe(3, func() string { return " WITHDIST" }) + g.maybe(3, func() string { return " WITHCOORD" }) +
			g.maybe(3, func() string { return " WITHHASH" })
		count := g.maybe(3, func() string { return " COUNT " + g.of("1 2 3 0 x") })
		return text + count, order != "" || count != ""
	}
	switch g.IntN(14) {
	case 0, 1, 2:
		return "GEOADD " + k() + " " + g.maybe(6, func() string { return g.of("NX XX CH") + " " }) + g.some(3, func() string { return lonLat() + " " + member() }), true
	case 3:
		return "GEODIST " + k() + " " + member() + " " + member() + g.maybe(2, func() string { return " " + unit() }), true
	case 4:
		return "GEOHASH " + k() + " " + g.some(3, member), true
	case 5:
		return "GEOPOS " + k() + " " + g.some(3, member), true
	case 6, 7:
		text, ordered := options()
		return g.of("GEORADIUS GEORADIUS_RO") + " " + k() + " " + lonLat() + " " + length() + " " + unit() + text, ordered
	case 8:
		text, ordered := options()
		return g.of("GEORADIUSBYMEMBER GEORADIUSBYMEMBER_RO") + " " + k() + " " + member() + " " + length() + " " + unit() + text, ordered
	case 9:
		return "GEORADIUS " + k() + " " + lonLat() + " " + length() + " km " + g.of("STORE STOREDIST") + " g2", true
	case 10:
		return "GEOSEARCHSTORE g2 " + k() + " FROMLONLAT " + lonLat() + " BYBOX " + length() + " " + length() + " km" + g.maybe(2, func() string { return " STOREDIST" }), true
	}
	from := "FROMLONLAT " + lonLat()
	if g.IntN(2) == 0 {
		from = "FROMMEMBER " + member()
	}
	by := "BYRADIUS " + length() + " " + unit()
	if g.IntN(2) == 0 {
		by = "BYBOX " + length() + " " + length() + " " + unit()
	}
	text, ordered := options()
	return "GEOSEARCH " + k() + " " + from + " " + by + text, ordered
}

// any deletes a key once in twelve times, and otherwise asks whether one exists.
func (g *generator) any() (string, bool) {
	if g.IntN(12) == 0 {
		return "DEL " + g.of(keysOf), true
	}
	return "EXISTS " + g.of(keysOf), true
}

// Estimates equal those of redis-server for registers of any rank, in each encoding.
func TestEstimatesAreOfRedis(t *testing.T) {
	theirs := dial(t, redisServer(t))
	_, address := newServer(t)
	ours := dial(t, address)
	r := rand.New(rand.NewPCG(1, 0))
	for i := range 60 {
		h := &hyperloglog.Sketch{Dense: i%2 == 0}
		most := 2 + r.IntN(31)
		if h.Dense {
			most = 2 + r.IntN(hyperloglog.MaxRank-1)
		}
		for k := range h.Ranks[:1+r.IntN(hyperloglog.Registers)] {
			h.Ranks[k] = uint8(r.IntN(most))
		}
		if i%6 == 0 { // as if there had been very many
			for k := range h.Ranks {
				h.Ranks[k] = uint8(hyperloglog.MaxRank - 4*r.IntN(2))
			}
		}
		request := "SET h " + strconv.Quote(string(h.Append(nil)))
		ours.do(request)
		theirs.do(request)
		if got, want := ours.do("PFCOUNT h"), theirs.do("PFCOUNT h"); got != want {
			t.Errorf("ranks below %d, dense %v: %s, want %s", most, h.Dense, got, want)
		}
	}
}
