package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/redisserver"
)

// fillStreams makes streams with groups, and returns their keys.
func fillStreams(c *redisClient, rnd *rand.Rand) (keys []string) {
	for i := range 20 {
		key := fmt.Sprint("stream ", i)
		keys = append(keys, key)
		c.do("XGROUP", "CREATE", key, "first", "0", "MKSTREAM")
		entries := []int{0, 1, 30, 700}[rnd.IntN(4)]
		if i == 0 {
			entries = 3000 // more elements than are read at once
		}
		for n := range entries {
			args := []string{"XADD", key, fmt.Sprintf("%d-%d", n/3+1, rnd.Uint64N(1000)+uint64(n%3)*1000)}
			for range 1 + rnd.IntN(3) {
				args = append(args, []string{"name", "name", "n"}[rnd.IntN(3)], string(randomBytes(rnd, rnd.IntN(1+rnd.IntN(120)))))
			}
			c.do(args...)
			if rnd.IntN(9) == 0 {
				c.do("XDEL", key, args[2])
			}
		}
		if rnd.IntN(3) == 0 {
			c.do("XTRIM", key, "MAXLEN", fmt.Sprint(rnd.IntN(entries+1)))
		}
		c.do("XGROUP", "CREATE", key, string(randomBytes(rnd, 5)), "$")
		for _, consumer := range []string{"a", "b", string(randomBytes(rnd, 9))} {
			if rnd.IntN(4) > 0 {
				c.do("XREADGROUP", "GROUP", "first", consumer, "COUNT", fmt.Sprint(1+rnd.IntN(entries+1)), "STREAMS", key, ">")
			}
		}
		if pending, _ := c.do("XPENDING", key, "first", "-", "+", "5").([]any); len(pending) > 1 {
			id := string(pending[1].([]any)[0].([]byte))
			c.do("XACK", key, "first", id)
			c.do("XCLAIM", key, "first", "heir", "0", string(pending[0].([]any)[0].([]byte)), "TIME", "1700000000000", "RETRYCOUNT", "300")
			c.do("XDEL", key, string(pending[0].([]any)[0].([]byte)))
		}
		if rnd.IntN(4) == 0 {
			c.do("XSETID", key, "18446744073709551615-5", "ENTRIESADDED", "1000000")
		}
		if rnd.IntN(4) == 0 {
			c.do("PEXPIREAT", key, "4102444800123")
		}
	}
	return keys
}

// laterOrTree matches the fields of streams that Redis 7.0 does not show, and those that depend on
// the storage.
var laterOrTree = regexp.MustCompile(`(active-time|radix-tree-\w+) -?\d+ `)

// streamsOf shows all fields of streams.
func streamsOf(c *redisClient, keys []string) (list []string) {
	for _, key := range keys {
		list = append(list, laterOrTree.ReplaceAllString(shown(c.do("XINFO", "STREAM", key, "FULL", "COUNT", "0"))+shown(c.do("PEXPIRETIME", key)), ""))
	}
	return list
}

func shown(reply any) string {
	switch v := reply.(type) {
	case []any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(shown(e))
		}
		return "[" + b.String() + "] "
	case []byte:
		return string(v) + " "
	}
	return fmt.Sprint(reply, " ")
}

// Streams arrive with their groups, consumers and pending entries, from a file of redis-server,
// from the server, and from one of copal.
func TestImportStreams(t *testing.T) {
	for seed, settings := range [][]string{nil, {"--stream-node-max-entries", "7", "--rdbcompression", "no"}, {"--stream-node-max-bytes", "100000", "--stream-node-max-entries", "0"}} {
		dir, address := redisserver.Start(t, settings...)
		c := dialRedis(t, address)
		c.do("SELECT", "3")
		keys := fillStreams(c, rand.New(rand.NewPCG(uint64(seed), 0)))
		want := streamsOf(c, keys)
		c.do("SAVE")
		imported := func(from string) (served string) {
			store := filepath.Join(t.TempDir(), "s")
			if out := mustCommand(t, nil, "import", store, from); !strings.HasSuffix(out, fmt.Sprintf(", %d verified\n", len(keys))) {
				t.Errorf("%s: %s", from, out)
			}
			served, _ = serveCopal(t, store)
			c := dialRedis(t, served)
			c.do("SELECT", "3")
			for i, got := range streamsOf(c, keys) {
				if got != want[i] {
					t.Errorf("%s: %q\n%.500s\nwant %.500s", from, keys[i], got, want[i])
				}
			}
			return served
		}
		imported(filepath.Join(dir, "dump.rdb"))
		imported("redis://" + imported("redis://"+address))
	}
}
