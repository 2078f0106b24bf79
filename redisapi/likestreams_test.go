package redisapi

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
)

// streamRequests are the requests about streams that are compared with Redis. The letters are
// replaced: S by one of a few streams, I by an id, M by an id that may be the first or the last
// possible one, R by an end of a range, G by a group, C by a consumer and N by a number. The name
// of one group ends with the last byte.
var streamRequests = strings.Split(`XADD S I f v|XADD S I f v g w|XADD S NOMKSTREAM I f v|XADD S MAXLEN N I f v|XADD S MINID = I I f v|XADD S 999-* f v|XADD S MAXLEN ~ 1000 LIMIT N NOMKSTREAM I f v|XLEN S|XDEL S I|XDEL S I I I|XTRIM S MAXLEN N|XTRIM S MINID I|XTRIM S MINID ~ 0-1 LIMIT N|XTRIM S MAXLEN = N
XRANGE S R R|XRANGE S R R COUNT N|XRANGE S - +|XREVRANGE S R R|XREVRANGE S R R COUNT N|XREAD STREAMS S M|XREAD COUNT N STREAMS S S I I|XREAD COUNT N STREAMS S S S M I $|XREAD STREAMS S $|XSETID S I|XSETID S 18446744073709551615-18446744073709551615|XSETID S I ENTRIESADDED N|XSETID S I ENTRIESADDED 1000 MAXDELETEDID I|XINFO STREAM S|XINFO STREAM S|XINFO GROUPS S|XINFO GROUPS S|XINFO CONSUMERS S G|XINFO STREAM S FULL|XINFO STREAM S FULL COUNT N
XGROUP CREATE S G M|XGROUP CREATE S G $ MKSTREAM|XGROUP CREATE S G I ENTRIESREAD N|XGROUP CREATE S G I MKSTREAM ENTRIESREAD N|XGROUP SETID S G M|XGROUP SETID S G -|XGROUP SETID S G I ENTRIESREAD N|XGROUP SETID S G $|XGROUP DESTROY S G|XGROUP DELCONSUMER S G C|XGROUP CREATECONSUMER S G C
XREADGROUP GROUP G C STREAMS S >|XREADGROUP GROUP G C COUNT N STREAMS S >|XREADGROUP GROUP G C COUNT 1 STREAMS S >|XREADGROUP GROUP G C NOACK COUNT 1 STREAMS S >|XREADGROUP GROUP G C STREAMS S M|XREADGROUP GROUP G C COUNT N STREAMS S S > I|XREADGROUP GROUP G C COUNT 2 STREAMS S >|XREADGROUP GROUP G C COUNT 1 STREAMS S S S > > I|XREADGROUP GROUP G C NOACK COUNT N STREAMS S S > >
XACK S G I|XACK S G I I I|XPENDING S G|XPENDING S G|XPENDING S G R R N|XPENDING S G R R 10 C|XPENDING S G IDLE 0 R R N|XPENDING S G IDLE 100000 R R N C
XCLAIM S G C 0 I|XCLAIM S G C 0 I I I JUSTID|XCLAIM S G C 100000 I|XCLAIM S G C 0 I FORCE|XCLAIM S G C 0 I I FORCE JUSTID|XCLAIM S G C 0 I RETRYCOUNT N LASTID M|XCLAIM S G C 0 I IDLE N|XCLAIM S G C 0 I TIME N FORCE|XAUTOCLAIM S G C 0 R|XAUTOCLAIM S G C 0 R COUNT 1|XAUTOCLAIM S G C 0 R COUNT 2 JUSTID|XAUTOCLAIM S G C 100000 R COUNT N
DEL S|RENAME S S|RENAMENX S S|COPY S S|COPY S S REPLACE|COPY S S DB 1|TYPE S|EXISTS S|SET S x|EXPIREAT S 4102444800|PERSIST S|EXPIRETIME S|SELECT 0|SELECT 1|MOVE S 1|SWAPDB 0 1|OBJECT ENCODING S`, "\n")

// mayDiffer are times, and the figures of a tree that only Redis has.
var mayDiffer = regexp.MustCompile(`(" )\d+( \d+\])|("(?:radix-tree-\w+|seen-time|idle)":?) \d+`)

// later matches the fields that Redis has from version 7.2 on.
var later = regexp.MustCompile(` "(active-time|inactive)":? -?\d+`)

// Thousands of random requests about streams have the replies that redis-server gives.
func TestStreamsLikeRedis(t *testing.T) {
	theirs := dial(t, redisServer(t))
	_, address := newServer(t)
	ours := dial(t, address)
	var forms []string
	for _, line := range streamRequests {
		forms = append(forms, strings.Split(line, "|")...)
	}
	steps := 3000
	switch {
	case os.Getenv("COPAL_LONG") == "1":
		steps = 1_000_000
	case testing.Short():
		steps = 1500
	}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		for _, p := range []*peer{theirs, ours} {
			p.do("FLUSHALL")
			p.do(fmt.Sprint("HELLO ", 2+seed%2))
			p.do("SELECT 0")
		}
		var history []string
		last, queues := 1, false
		for range steps / 4 {
			form := forms[r.IntN(len(forms))]
			if r.IntN(30) > 0 && strings.ContainsAny(form[:1], "DRCS") {
				continue
			}
			words := strings.Fields(form)
			for i, w := range words {
				id := func() string {
					if r.IntN(3) == 0 {
						return fmt.Sprintf("%d-%d", 1+r.IntN(last+1), r.IntN(3))
					}
					return fmt.Sprintf("%d-1", max(1, last-r.IntN(8)))
				}
				edge := func() string {
					return []string{"0", "0-0", "0-1", "18446744073709551615", "18446744073709551615-18446744073709551615", "18446744073709551615-0"}[r.IntN(6)]
				}
				switch w {
				case "S":
					w = []string{"s", "s", "s", "t", "u"}[r.IntN(5)]
				case "G":
					w = []string{"g", "g", `"\xff"`}[r.IntN(3)]
				case "C":
					w = []string{"a", "b", `"c\xff"`}[r.IntN(3)]
				case "N":
					w = fmt.Sprint(r.IntN(7))
				case "R":
					w = []string{"-", "+", id(), "(" + id(), id(), "(" + id(), edge(), "(" + edge()}[r.IntN(8)]
				case "M":
					if w = id(); r.IntN(6) == 0 {
						w = edge()
					}
				case "999-*":
					w = fmt.Sprintf("%d-*", last+r.IntN(2))
				case "I":
					if w = id(); form[:4] == "XADD" && r.IntN(4) > 0 {
						last++
						w = fmt.Sprintf("%d-1", last)
					}
					if form[:4] == "XSET" { // Redis 7.0 takes an id below one that was deleted
						w = fmt.Sprintf("%d-2", last)
					}
				}
				words[i] = w
			}
			request := strings.Join(words, " ")
			switch {
			case !queues && r.IntN(60) == 0:
				queues, request = true, "MULTI"
			case queues && r.IntN(6) == 0:
				queues, request = false, "EXEC"
			case queues && strings.Contains(request, " STREAMS ") && r.IntN(2) == 0:
				request = strings.Replace(request, " STREAMS ", " BLOCK 0 STREAMS ", 1)
			}
			history = append(history, request)
			if form[:4] == "XREA" || form[:3] == "XCL" || form[:3] == "XAU" {
				// Redis 7.2 makes a consumer that finds nothing, and 7.0 does not.
				for _, key := range []string{"s", "t", "u"} {
					for _, group := range []string{"g", `"\xff"`} {
						for _, consumer := range []string{"a", "b", `"c\xff"`} {
							make := fmt.Sprintf("XGROUP CREATECONSUMER %s %s %s", key, group, consumer)
							theirs.do(make)
							ours.do(make)
						}
					}
				}
			}
			want, got := alikeStream(theirs.do(request)), alikeStream(ours.do(request))
			if got != want {
				t.Fatalf("seed %d, after %s:\n%s: %s\nRedis:  %s", seed, strings.Join(history[max(0, len(history)-25):], "\n"), request, got, want)
			}
			if !queues && r.IntN(40) == 0 {
				dumpsAlike(t, theirs, ours)
			}
		}
		if queues {
			theirs.want("DISCARD", "OK")
			ours.want("DISCARD", "OK")
		}
	}
}

// dumpsAlike compares a stream with the streams that both servers restore from its dumps.
func dumpsAlike(t *testing.T, theirs, ours *peer) {
	t.Helper()
	if theirs.do("TYPE s") != "stream" {
		return
	}
	for _, c := range []struct{ from, to *peer }{{theirs, ours}, {ours, theirs}, {ours, ours}} {
		c.to.want("RESTORE restored 0 "+c.from.do("DUMP s")+" REPLACE", "OK")
		if got, want := c.to.full("restored"), c.from.full("s"); got != want {
			t.Fatalf("%s\nwant %s", got, want)
		}
		if got, want := c.to.do("XREVRANGE restored + -"), c.from.do("XREVRANGE s + -"); got != want {
			t.Fatalf("backward it is %s\nwant %s", got, want)
		}
		c.to.do("DEL restored")
	}
}

var inTree = regexp.MustCompile(`"radix-tree-\w+":? \d+`)

// full is everything about a stream, to the millisecond.
func (p *peer) full(key string) string {
	return inTree.ReplaceAllString(later.ReplaceAllString(p.do("XINFO STREAM "+key+" FULL COUNT 0"), ""), "")
}

// alikeStream returns a reply without the differences that are allowed.
func alikeStream(reply string) string {
	return mayDiffer.ReplaceAllString(later.ReplaceAllString(reply, ""), "$1$2$3")
}
