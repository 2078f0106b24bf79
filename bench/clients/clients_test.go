package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/redisapi"
)

// serve serves a store in memory until the test ends.
func serve(t *testing.T, password string, change ...func(s *redisapi.Server, address string)) (*copal.DB, string) {
	t.Helper()
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &redisapi.Server{DB: db}
	if password != "" {
		if s.Access, err = access.New(access.Password(password)); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range change {
		f(s, l.Addr().String())
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, redisapi.ErrServerClosed) {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, l.Addr().String()
}

// check fails the test for an error of the named call.
func check(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// want fails the test if a call had an error or another outcome.
func want[T comparable](t *testing.T, what string, value T) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil || got != value {
			t.Errorf("%s: %v, %v; want %v", what, got, err, value)
		}
	}
}

func TestGoRedis(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			db, address := serve(t, "secret")
			ctx := t.Context()
			c := redis.NewClient(&redis.Options{Addr: address, Password: "secret", Protocol: protocol, ClientName: "test"})
			defer c.Close()
			want(t, "PING", "PONG")(c.Ping(ctx).Result())
			want(t, "CLIENT GETNAME", "test")(c.ClientGetName(ctx).Result())

			check(t, "SET", c.Set(ctx, "greeting", "hello", time.Hour).Err())
			want(t, "GET", "hello")(c.Get(ctx, "greeting").Result())
			if err := c.Get(ctx, "none").Err(); err != redis.Nil {
				t.Errorf("GET of none: %v", err)
			}
			if d, err := c.TTL(ctx, "greeting").Result(); err != nil || d <= 59*time.Minute || d > time.Hour {
				t.Errorf("TTL: %v, %v", d, err)
			}
			want(t, "SETNX", false)(c.SetNX(ctx, "greeting", "x", 0).Result())
			want(t, "INCRBY", int64(7))(c.IncrBy(ctx, "n", 7).Result())
			want(t, "INCRBYFLOAT", 7.5)(c.IncrByFloat(ctx, "n", 0.5).Result())

			check(t, "HSET", c.HSet(ctx, "user", "name", "Ann", "age", 7).Err())
			var user struct {
				Name string `redis:"name"`
				Age  int    `redis:"age"`
			}
			check(t, "HGETALL", c.HGetAll(ctx, "user").Scan(&user))
			if user.Name != "Ann" || user.Age != 7 {
				t.Errorf("%+v", user)
			}
			check(t, "RPUSH", c.RPush(ctx, "queue", "a", "b", "c").Err())
			if list, err := c.LRange(ctx, "queue", 0, -1).Result(); err != nil || !slices.Equal(list, []string{"a", "b", "c"}) {
				t.Errorf("%v, %v", list, err)
			}
			check(t, "SADD", c.SAdd(ctx, "tags", "x", "y").Err())
			want(t, "SISMEMBER", true)(c.SIsMember(ctx, "tags", "x").Result())
			check(t, "ZADD", c.ZAdd(ctx, "scores", redis.Z{Score: 2, Member: "b"}, redis.Z{Score: 1.5, Member: "a"}).Err())
			if list, err := c.ZRangeWithScores(ctx, "scores", 0, -1).Result(); err != nil || len(list) != 2 || list[0] != (redis.Z{Score: 1.5, Member: "a"}) {
				t.Errorf("%v, %v", list, err)
			}

			pipe := c.Pipeline()
			var last *redis.IntCmd
			for range 100 {
				last = pipe.Incr(ctx, "piped")
			}
			_, err := pipe.Exec(ctx)
			check(t, "a pipeline", err)
			want(t, "the last of it", int64(100))(last.Result())
			_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "together", 1, 0)
				p.LPush(ctx, "queue", "z")
				return nil
			})
			check(t, "a transaction", err)

			// A change of a watched key ends a transaction, and go-redis reports it.
			err = c.Watch(ctx, func(tx *redis.Tx) error {
				n, err := tx.Get(ctx, "piped").Int()
				if err != nil {
					return err
				}
				if err := db.Raw().Set([]byte("piped"), []byte("5")); err != nil {
					return err
				}
				_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Set(ctx, "piped", n+1, 0)
					return nil
				})
				return err
			}, "piped")
			if err != redis.TxFailedErr {
				t.Errorf("WATCH: %v", err)
			}
			want(t, "after that", "5")(c.Get(ctx, "piped").Result())

			// A pop that waits is served by the push that comes.
			popped := make(chan []string, 1)
			go func() {
				list, err := c.BLPop(ctx, 0, "jobs").Result()
				if err != nil {
					t.Error(err)
				}
				popped <- list
			}()
			check(t, "RPUSH", c.RPush(ctx, "jobs", "first").Err())
			if list := <-popped; !slices.Equal(list, []string{"jobs", "first"}) {
				t.Errorf("BLPOP: %q", list)
			}
			sub := c.Subscribe(ctx, "news")
			defer sub.Close()
			_, err = sub.Receive(ctx) // that it is subscribed
			check(t, "SUBSCRIBE", err)
			want(t, "PUBLISH", int64(1))(c.Publish(ctx, "news", "hello").Result())
			if m := <-sub.Channel(); m.Channel != "news" || m.Payload != "hello" {
				t.Errorf("%v", m)
			}

			// Changes of keys have notifications, also those made by another API.
			check(t, "CONFIG SET", c.ConfigSet(ctx, "notify-keyspace-events", "KEA").Err())
			events := c.PSubscribe(ctx, "__keyevent@0__:*")
			defer events.Close()
			_, err = events.Receive(ctx)
			check(t, "PSUBSCRIBE", err)
			check(t, "SET", c.Set(ctx, "told", "1", 0).Err())
			if _, err := db.Raw().Delete([]byte("told")); err != nil {
				t.Fatal(err)
			}
			for _, event := range []string{"set", "del"} {
				if m := <-events.Channel(); m.Channel != "__keyevent@0__:"+event || m.Payload != "told" {
					t.Errorf("%v, want %s", m, event)
				}
			}

			var keys []string
			for it := c.Scan(ctx, 0, "", 3).Iterator(); it.Next(ctx); {
				keys = append(keys, it.Val())
			}
			slices.Sort(keys)
			if want := []string{"greeting", "n", "piped", "queue", "scores", "tags", "together", "user"}; !slices.Equal(keys, want) {
				t.Errorf("SCAN: %q", keys)
			}
			if err := c.LPush(ctx, "greeting", "x").Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
				t.Errorf("LPUSH of a string: %v", err)
			}
		})
	}
}

func TestRueidis(t *testing.T) {
	_, address := serve(t, "secret")
	ctx := t.Context()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, Password: "secret"})
	check(t, "the handshake", err)
	defer c.Close()
	b := c.B()
	check(t, "SET", c.Do(ctx, b.Set().Key("a").Value("1").Ex(time.Hour).Build()).Error())
	want(t, "GET", "1")(c.Do(ctx, b.Get().Key("a").Build()).ToString())
	want(t, "INCR", int64(2))(c.Do(ctx, b.Incr().Key("a").Build()).AsInt64())
	if err := c.Do(ctx, b.Get().Key("none").Build()).Error(); !rueidis.IsRedisNil(err) {
		t.Errorf("GET of none: %v", err)
	}
	check(t, "HSET", c.Do(ctx, b.Hset().Key("h").FieldValue().FieldValue("f", "v").FieldValue("g", "w").Build()).Error())
	if m, err := c.Do(ctx, b.Hgetall().Key("h").Build()).AsStrMap(); err != nil || len(m) != 2 || m["g"] != "w" {
		t.Errorf("HGETALL: %v, %v", m, err)
	}
	check(t, "ZADD", c.Do(ctx, b.Zadd().Key("z").ScoreMember().ScoreMember(1.5, "m").Build()).Error())
	want(t, "ZSCORE", 1.5)(c.Do(ctx, b.Zscore().Key("z").Member("m").Build()).AsFloat64())
	var list []rueidis.Completed
	for range 50 {
		list = append(list, b.Incr().Key("n").Build())
	}
	for i, r := range c.DoMulti(ctx, list...) {
		want(t, "a pipeline", int64(i+1))(r.AsInt64())
	}
	check(t, "a transaction", c.Dedicated(func(d rueidis.DedicatedClient) error {
		for _, r := range d.DoMulti(ctx, b.Multi().Build(), b.Set().Key("x").Value("1").Build(), b.Incr().Key("x").Build(), b.Exec().Build()) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		return nil
	}))
	subscribed, heard := make(chan struct{}), make(chan string, 1)
	go func() {
		ctx := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { close(subscribed) })
		c.Receive(ctx, b.Subscribe().Channel("news").Build(), func(m rueidis.PubSubMessage) { heard <- m.Message })
	}()
	<-subscribed
	want(t, "PUBLISH", int64(1))(c.Do(ctx, b.Publish().Channel("news").Message("hello").Build()).AsInt64())
	if m := <-heard; m != "hello" {
		t.Errorf("%q", m)
	}
	check(t, "LPUSH", c.Do(ctx, b.Lpush().Key("jobs").Element("one").Build()).Error())
	if list, err := c.Do(ctx, b.Blpop().Key("jobs").Timeout(0).Build()).AsStrSlice(); err != nil || !slices.Equal(list, []string{"jobs", "one"}) {
		t.Errorf("BLPOP: %q, %v", list, err)
	}
	want(t, "after it", "2")(c.Do(ctx, b.Get().Key("x").Build()).ToString())
}

// Clients that know nothing but clusters, and those that look for one, find a cluster of one where
// it is wanted.
func TestClusterClients(t *testing.T) {
	_, address := serve(t, "secret", func(s *redisapi.Server, address string) { s.ClusterAddress = address })
	ctx := t.Context()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, Password: "secret", ReadOnly: true})
	defer c.Close()
	check(t, "SET", c.Set(ctx, "a", "1", 0).Err())
	want(t, "GET", "1")(c.Get(ctx, "a").Result())
	want(t, "DBSIZE", int64(1))(c.DBSize(ctx).Result())

	r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, Password: "secret"})
	check(t, "rueidis", err)
	defer r.Close()
	if r.Mode() != rueidis.ClientModeCluster {
		t.Errorf("rueidis has not found the cluster: %v", r.Mode())
	}
	want(t, "GET", "1")(r.Do(ctx, r.B().Get().Key("a").Build()).ToString())
	want(t, "GET near", "1")(r.DoCache(ctx, r.B().Get().Key("a").Cache(), time.Minute).ToString())
}
