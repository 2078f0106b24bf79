package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/resp"
)

// killedGroup is the knowledge of clients about one stream with one group, through several lives of
// a server. Entries are numbers: n has the id n-1.
type killedGroup struct {
	mu           sync.Mutex
	sent, added  int            // the highest number that a client has sent, and the highest acknowledged one
	deliveredTo  map[int]string // as far as a reply has shown it
	asked, acked map[int]bool   // to be acknowledged, and known to be
}

// replyOf sends a request, and returns its reply, nil when the server is gone.
func replyOf(nc net.Conn, in *bufio.Reader, words string) (any, error) {
	if _, err := nc.Write(resp.AppendRequest(nil, strings.Fields(words)...)); err != nil {
		return nil, nil
	}
	reply, err := resp.ReadReply(in)
	if err != nil {
		return nil, nil
	}
	if refused, ok := reply.(resp.ErrorReply); ok {
		return nil, fmt.Errorf("%s: %w", words, refused)
	}
	return reply, nil
}

func numberOfEntry(id any) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(string(id.([]byte)), "-1"))
	return n
}

// adds adds entries until the server is gone.
func (k *killedGroup) adds(nc net.Conn) error {
	in := bufio.NewReader(nc)
	for {
		k.mu.Lock()
		k.sent++
		n := k.sent
		k.mu.Unlock()
		if reply, err := replyOf(nc, in, fmt.Sprintf("XADD s %d-1 n %d", n, n)); reply == nil {
			return err
		}
		k.mu.Lock()
		k.added = n
		k.mu.Unlock()
	}
}

// consumes reads entries, and acknowledges two of three, until the server is gone.
func (k *killedGroup) consumes(nc net.Conn, name string, acknowledged func()) error {
	in := bufio.NewReader(nc)
	for {
		reply, err := replyOf(nc, in, "XREADGROUP GROUP g "+name+" COUNT 3 BLOCK 0 STREAMS s >")
		if reply == nil {
			return err
		}
		for _, e := range reply.([]any)[0].([]any)[1].([]any) {
			n := numberOfEntry(e.([]any)[0])
			k.mu.Lock()
			if other, twice := k.deliveredTo[n]; twice {
				err = errors.Join(err, fmt.Errorf("%d is delivered to %s, and was to %s", n, name, other))
			}
			k.deliveredTo[n] = name
			k.asked[n] = n%3 > 0
			k.mu.Unlock()
			if n%3 == 0 {
				continue
			}
			reply, refused := replyOf(nc, in, fmt.Sprintf("XACK s g %d-1", n))
			if reply == nil {
				return errors.Join(err, refused)
			}
			if reply != int64(1) {
				err = errors.Join(err, fmt.Errorf("%d is acknowledged %v times", n, reply))
			}
			k.mu.Lock()
			k.acked[n] = true
			k.mu.Unlock()
			acknowledged()
		}
		if err != nil {
			return err
		}
	}
}

// judge compares the stream with the replies to the clients.
func (k *killedGroup) judge(t *testing.T, c *redisClient) {
	t.Helper()
	entries := c.do("XRANGE", "s", "-", "+").([]any)
	for i, e := range entries {
		if n := numberOfEntry(e.([]any)[0]); n != i+1 {
			t.Fatalf("entry %d is %d", i+1, n)
		}
	}
	if n := len(entries); n < k.added || n > k.sent {
		t.Errorf("%d entries; %d are known to be added, %d were sent", n, k.added, k.sent)
	}
	k.sent, k.added = len(entries), len(entries)
	group := c.do("XINFO", "GROUPS", "s").([]any)[0].([]any)
	last, read, lag := numberOfEntry(group[7]), int(group[9].(int64)), int(group[11].(int64))
	if read != last || lag != len(entries)-last {
		t.Errorf("%d entries, the last that was delivered is %d, %d were read and %d are left", len(entries), last, read, lag)
	}
	pending, counts := map[int]string{}, map[string]int{}
	for _, p := range c.do("XPENDING", "s", "g", "-", "+", "1000000").([]any) {
		n, consumer := numberOfEntry(p.([]any)[0]), string(p.([]any)[1].([]byte))
		pending[n] = consumer
		counts[consumer]++
		switch told, known := k.deliveredTo[n]; {
		case known && told != consumer:
			t.Errorf("%d is of %s, and was delivered to %s", n, consumer, told)
		case n > last:
			t.Errorf("%d is pending behind the last, %d", n, last)
		case k.acked[n]:
			t.Errorf("%d is pending, and was acknowledged", n)
		}
		k.deliveredTo[n] = consumer // the reply may have been lost
	}
	for n := range last {
		if n++; pending[n] == "" && !k.asked[n] {
			t.Errorf("%d is lost: nobody has it, and nobody has acknowledged it", n)
		}
	}
	for n := range k.deliveredTo {
		if n > last {
			t.Errorf("%d was delivered, and would be once more, behind %d", n, last)
		}
	}
	summed := map[string]int{}
	for _, each := range c.do("XINFO", "CONSUMERS", "s", "g").([]any) {
		if n := int(each.([]any)[3].(int64)); n > 0 {
			summed[string(each.([]any)[1].([]byte))] = n
		}
	}
	if !maps.Equal(summed, counts) {
		t.Errorf("the consumers have %v, and pending are %v", summed, counts)
	}
}

// Through the deaths of the server no entry of a stream is lost, none is delivered twice, and none
// that was acknowledged is pending again.
func TestServeKilledStreams(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	r := rand.New(rand.NewPCG(3, 4))
	k := &killedGroup{deliveredTo: map[int]string{}, asked: map[int]bool{}, acked: map[int]bool{}}
	lives := 4
	switch {
	case os.Getenv("COPAL_LONG") == "1":
		lives = 60
	case testing.Short():
		lives = 1
	}
	for life := range lives + 1 {
		cmd, address := startServe(t, dir)
		c := dialRedis(t, address)
		if life == 0 {
			c.do("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM", "ENTRIESREAD", "0")
		}
		k.judge(t, c)
		if life == lives || t.Failed() {
			cmd.Process.Kill()
			cmd.Wait()
			break
		}
		var acks atomic.Int64
		var wg sync.WaitGroup
		enough := 1 + r.Int64N(200)
		run := func(f func(net.Conn) error) {
			nc := dialRedis(t, address).conn
			wg.Go(func() {
				if err := f(nc); err != nil {
					t.Error(err)
					cmd.Process.Kill()
				}
			})
		}
		run(k.adds)
		for _, name := range []string{"a", "b", "c"} {
			run(func(nc net.Conn) error {
				return k.consumes(nc, name, func() {
					if acks.Add(1) == enough {
						cmd.Process.Kill()
					}
				})
			})
		}
		wg.Wait()
		cmd.Wait()
	}
	if len(k.acked) == 0 || !slices.Contains(slices.Collect(maps.Values(k.deliveredTo)), "c") {
		t.Error("it has tried nothing")
	}
}
