package redisapi

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
)

// streamRequests are the forms of requests about streams that are compared with Redis: S stands for one of few
// streams, I for an id, R for an end of a range, G for a group, C for a consumer and N for a number.
var streamRequests = strings.Split(`XADD S I f v|XADD S I f v g w|XADD S NOMKSTREAM I f v|XADD S MAXLEN N I f v|XADD S MINID = I I f v|XLEN S|XDEL S I|XDEL S I I I|XTRIM S MAXLEN N|XTRIM S MINID I
XRANGE S R R|XRANGE S R R COUNT N|XRANGE S - +|XREVRANGE S R R|XREVRANGE S R R COUNT N|XREAD STREAMS S I|XREAD COUNT N STREAMS S S I I|XREAD STREAMS S $|XSETID S I|XSETID S I ENTRIESADDED N|XINFO STREAM S|XINFO STREAM S|XINFO GROUPS S|XINFO GROUPS S
XGROUP CREATE S G I|XGROUP CREATE S G $ MKSTREAM|XGROUP CREATE S G I ENTRIESREAD N|XGROUP SETID S G I|XGROUP SETID S G I ENTRIESREAD N|XGROUP SETID S G $|XGROUP DESTROY S G|XGROUP DELCONSUMER S G C
XREADGROUP GROUP G C STREAMS S >|XREADGROUP GROUP G C COUNT N STREAMS S >|XREADGROUP GROUP G C COUNT 1 STREAMS S >|XREADGROUP GROUP G C NOACK COUNT 1 STREAMS S >|XREADGROUP GROUP G C STREAMS S I|XREADGROUP GROUP G C COUNT N STREAMS S S > I|XREADGROUP GROUP G C COUNT 2 STREAMS S >
XACK S G I|XACK S G I I I|XPENDING S G|XPENDING S G|XPENDING S G R R N|XPENDING S G R R 10 C|XCLAIM S G C 0 I|XCLAIM S G C 0 I I I JUSTID|XCLAIM S G C 100000 I|XCLAIM S G C 0 I FORCE|XCLAIM S G C 0 I RETRYCOUNT N LASTID I|XCLAIM S G C 0 I IDLE N|XAUTOCLAIM S G C 0 R|XAUTOCLAIM S G C 0 R COUNT 1|XAUTOCLAIM S G C 0 R COUNT 2 JUSTID
DEL S|RENAME S S|COPY S S|COPY S S REPLACE|TYPE S|EXISTS S|SET S x`, "\n")

// mayDiffer is how long ago something was delivered, in what XPENDING says of entries, and the figures of a tree that
// only Redis has.
var mayDiffer = regexp.MustCompile(`(" )\d+( \d+\])|("radix-tree-\w+") \d+`)

// Thousands of random requests about streams have the replies that redis-server gives.
func TestStreamsLikeRedis(t *testing.T) {
	theirs := dial(t, redisServer(t))
	_, address := newServer(t)
	ours := dial(t, address)
	var forms []string
	for _, line := range streamRequests {
		forms = append(forms, strings.Split(line, "|")...)
	}
	steps := 6000
	switch {
	case os.Getenv("COPAL_LONG") == "1":
		steps = 200_000
	case testing.Short():
		steps = 1500
	}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		theirs.do("FLUSHALL")
		ours.do("FLUSHALL")
		var history []string
		last := 1
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
				switch w {
				case "S":
					w = []string{"s", "s", "s", "t", "u"}[r.IntN(5)]
				case "G":
					w = []string{"g", "g", "h"}[r.IntN(3)]
				case "C":
					w = []string{"a", "b", "c"}[r.IntN(3)]
				case "N":
					w = fmt.Sprint(r.IntN(7))
				case "R":
					w = []string{"-", "+", id(), "(" + id()}[r.IntN(4)]
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
			history = append(history, request)
			if form[:4] == "XREA" || form[:3] == "XCL" || form[:3] == "XAU" {
				// Redis 7.2 makes a consumer that finds nothing, and 7.0 does not.
				for _, key := range []string{"s", "t", "u"} {
					for _, group := range []string{"g", "h"} {
						for _, consumer := range []string{"a", "b", "c"} {
							make := fmt.Sprintf("XGROUP CREATECONSUMER %s %s %s", key, group, consumer)
							theirs.do(make)
							ours.do(make)
						}
					}
				}
			}
			want, got := mayDiffer.ReplaceAllString(theirs.do(request), "$1$2$3"), mayDiffer.ReplaceAllString(ours.do(request), "$1$2$3")
			if got != want {
				t.Fatalf("seed %d, after %s:\n%s: %s\nRedis:  %s", seed, strings.Join(history[max(0, len(history)-25):], "\n"), request, got, want)
			}
		}
	}
}
