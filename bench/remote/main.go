// Command remote measures the typed Map of package remote beside the same client used by hand:
// rueidis with encoding/json, on the same servers, in turns.
//
//	go run ./remote                 # all lines, 5 rounds: some minutes
//	go run ./remote -run redis/Get  # some lines
//
// Update by hand is the least that loses no change: a read, and a script that sets the value if it
// has not changed, or SET with IFEQ if the server has it. The lines "near" read entries that both
// clients cache until the server reports a change. The lines of etcd have its own client on the
// other side, and one etcd; writes of both are synced.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/bench/internal/serving"
	"github.com/copaldb/copal/remote"
)

var (
	rounds = flag.Int("rounds", 5, "rounds, of which the medians are shown")
	only   = flag.String("run", "", "regular expression of the lines to measure")
	dir    = flag.String("dir", "", "where the stores are made, and removed")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// user is the record of all lines.
type user struct {
	ID      int64   `json:"id"`
	Name    string  `json:"name"`
	Email   string  `json:"email"`
	Age     int32   `json:"age"`
	Balance float64 `json:"balance"`
	Active  bool    `json:"active"`
	Logins  int     `json:"logins"`
}

const keys = 10_000

func keyOf(n int) string { return fmt.Sprintf("user%05d", n%keys) }

func userOf(n int) user {
	return user{int64(n), keyOf(n), keyOf(n) + "@example.org", int32(n % 60), float64(n) / 100, n%2 == 0, n}
}

// side does one operation.
type side interface {
	get(ctx context.Context, key string) (user, error)
	set(ctx context.Context, key string, u user) error
	update(ctx context.Context, key string) error
}

func run(ctx context.Context) (err error) {
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(*dir, "copal-bench-remote-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	binary, err := serving.Build(work)
	if err != nil {
		return err
	}
	fmt.Printf("%-22s %10s %10s %7s  %9s %9s %7s\n", "", "typed/s", "other/s", "speed", "p99 µs", "p99 µs", "time")
	own, err := serving.Start(filepath.Join(work, "copal-store"), serving.Copal(binary, "write"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Stop()) }()
	at := "127.0.0.1:" + own.Port
	if err := lines(ctx, "copal", at, wanted); err != nil {
		return err
	}
	if err := redisLines(ctx, filepath.Join(work, "redis-store"), wanted); err != nil {
		return err
	}
	return etcdLines(ctx, filepath.Join(work, "etcd-store"), at, wanted)
}

func redisLines(ctx context.Context, dir string, wanted *regexp.Regexp) (err error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Println("redis-server is not installed, so its lines are left out")
		return nil
	}
	s, err := serving.Start(dir, serving.Redis("everysec"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	return lines(ctx, "redis", "127.0.0.1:"+s.Port, wanted)
}

// lines measures a server: the typed Map and the client by hand, then both with a cache.
func lines(ctx context.Context, server, address string, wanted *regexp.Regexp) (err error) {
	for _, near := range []bool{false, true} {
		if err := pair(ctx, server, address, near, wanted); err != nil {
			return fmt.Errorf("%s: %w", server, err)
		}
	}
	return nil
}

func pair(ctx context.Context, server, address string, near bool, wanted *regexp.Regexp) (err error) {
	name, verbs, c := server, []string{"Get", "Set", "Update"}, remote.Config{Addresses: []string{address}}
	if near {
		name, verbs, c.CacheBytes = server+" near", []string{"Get"}, 64<<20
	}
	users, end, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: !near, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer client.Close()
	return measureAll(ctx, name, verbs, []side{typed{users}, &byHand{client: client, hasIf: server == "copal", near: near}}, wanted)
}

// open opens the map of the typed side.
func open(ctx context.Context, c remote.Config) (users *copal.Map[string, user], end func() error, err error) {
	db, err := c.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	if users, err = copal.OpenMap[string, user](db, "users"); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return users, db.Close, nil
}

// measureAll fills both sides, and measures their verbs.
func measureAll(ctx context.Context, name string, verbs []string, sides []side, wanted *regexp.Regexp) error {
	filled := false
	for _, verb := range verbs {
		for _, goroutines := range []int{1, 64} {
			line := fmt.Sprintf("%s/%s/%d", name, verb, goroutines)
			if !wanted.MatchString(line) {
				continue
			}
			if !filled {
				filled = true
				for _, s := range sides { // all keys: the step from one to the next has no divisor with their number
					if _, err := load(ctx, s, "Set", 64, keys); err != nil {
						return err
					}
				}
			}
			if err := measure(ctx, line, verb, goroutines, sides); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
	}
	return nil
}

// figures are of one load.
type figures struct{ perSecond, p99 float64 }

func measure(ctx context.Context, line, verb string, goroutines int, sides []side) error {
	ops := 20_000
	if goroutines > 1 {
		ops = 100_000
	}
	if strings.HasPrefix(line, "etcd/") && verb != "Get" { // each of which waits for the disk
		ops /= 10
	}
	if strings.Contains(line, " near/") {
		ops *= 10
		for _, s := range sides { // which both have all keys near then
			if _, err := load(ctx, s, verb, 64, keys); err != nil {
				return err
			}
		}
	}
	var all [2][]figures
	for round := range *rounds {
		for i := range sides {
			at := (i + round) % len(sides)
			f, err := load(ctx, sides[at], verb, goroutines, ops)
			if err != nil {
				return err
			}
			all[at] = append(all[at], f)
		}
	}
	fmt.Printf("%-22s", line)
	for i, of := range []func(figures) float64{func(f figures) float64 { return f.perSecond }, func(f figures) float64 { return f.p99 }} {
		var mine, other, ratio []float64
		for r := range all[0] {
			a, b := of(all[0][r]), of(all[1][r])
			mine, other, ratio = append(mine, a), append(other, b), append(ratio, a/b)
		}
		format := " %10.0f %10.0f %6.2fx "
		if i > 0 {
			format = " %9.0f %9.0f %6.2fx "
		}
		fmt.Printf(format, median(mine), median(other), median(ratio))
	}
	fmt.Println()
	return nil
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// load makes calls from goroutines, each on keys of its own order.
func load(ctx context.Context, s side, verb string, goroutines, ops int) (f figures, err error) {
	var next atomic.Int64
	var wait sync.WaitGroup
	took := make([]time.Duration, ops)
	errs := make([]error, goroutines)
	began := time.Now()
	for g := range goroutines {
		wait.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= ops {
					return
				}
				start, key := time.Now(), keyOf(n*7919)
				var err error
				switch verb {
				case "Get":
					_, err = s.get(ctx, key)
				case "Set":
					err = s.set(ctx, key, userOf(n))
				default:
					err = s.update(ctx, key)
				}
				took[n] = time.Since(start)
				if err != nil {
					errs[g] = err
					return
				}
			}
		})
	}
	wait.Wait()
	all := time.Since(began)
	slices.Sort(took)
	return figures{float64(ops) / all.Seconds(), float64(took[ops*99/100].Microseconds())}, errors.Join(errs...)
}

// typed is the Map.
type typed struct{ users *copal.Map[string, user] }

func (t typed) get(_ context.Context, key string) (user, error) { return t.users.Load(key) }
func (t typed) set(_ context.Context, key string, u user) error { return t.users.Set(key, u) }
func (t typed) update(_ context.Context, key string) error {
	_, _, err := t.users.Update(key, func(e *copal.Entry[user]) error { e.Value.Logins++; return nil })
	return err
}

// byHand is the client with encoding/json.
type byHand struct {
	client rueidis.Client
	hasIf  bool
	near   bool // the client keeps replies, which are decoded each time
}

func (h *byHand) get(ctx context.Context, key string) (u user, err error) {
	var reply rueidis.RedisResult
	if h.near {
		reply = h.client.DoCache(ctx, h.client.B().Get().Key("hand:"+key).Cache(), time.Hour)
	} else {
		reply = h.client.Do(ctx, h.client.B().Get().Key("hand:"+key).Build())
	}
	b, err := reply.AsBytes()
	if err == nil {
		err = json.Unmarshal(b, &u)
	}
	return u, err
}

func (h *byHand) set(ctx context.Context, key string, u user) error {
	b, err := json.Marshal(&u)
	if err != nil {
		return err
	}
	return h.client.Do(ctx, h.client.B().Set().Key("hand:"+key).Value(string(b)).Build()).Error()
}

var swap = rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1`)

func (h *byHand) update(ctx context.Context, key string) error {
	for {
		was, err := h.client.Do(ctx, h.client.B().Get().Key("hand:"+key).Build()).ToString()
		if err != nil {
			return err
		}
		var u user
		if err := json.Unmarshal([]byte(was), &u); err != nil {
			return err
		}
		u.Logins++
		b, err := json.Marshal(&u)
		if err != nil {
			return err
		}
		var done bool
		if h.hasIf {
			err = h.client.Do(ctx, h.client.B().Arbitrary("SET").Keys("hand:"+key).Args(string(b), "KEEPTTL", "IFEQ", was).Build()).Error()
			done = err == nil
			if rueidis.IsRedisNil(err) {
				err = nil
			}
		} else {
			var n int64
			n, err = swap.Exec(ctx, h.client, []string{"hand:" + key}, []string{was, string(b)}).AsInt64()
			done = n == 1
		}
		if err != nil || done {
			return err
		}
	}
}
