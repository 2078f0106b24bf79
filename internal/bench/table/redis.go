package table

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/redisserver"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi"
)

const redisValueBytes = 100

// redisProgram is the path of redis-server, "" where there is none.
var redisProgram, _ = exec.LookPath("redis-server")

// redisVersion returns the version that redis-server prints.
func redisVersion() string {
	out, _ := exec.Command(redisProgram, "--version").Output() // Redis server v=7.0.15 sha=…
	_, version, _ := strings.Cut(string(out), " v=")
	version, _, _ = strings.Cut(version, " ")
	return version
}

// redisLines: the cost of a command in the protocol of Redis.
func redisLines(s setting) []line {
	var lines []line
	for _, pipeline := range []int{1, 16} {
		for _, command := range []string{"SET", "GET"} {
			ops := s.ops / 3
			if pipeline > 1 {
				ops *= 5
			}
			row := versus{title: fmt.Sprintf("%s, pipeline of %d", command, pipeline), ours: "copal", metric: perOp, goal: goal{sense: more}}
			if redisProgram != "" {
				row.theirs = []string{"redis-server"}
			}
			lines = append(lines, line{
				name:  fmt.Sprintf("redis/%s/P%d", command, pipeline),
				group: fmt.Sprintf("Redis protocol, %d clients, values of %d B, in the log when answered; redis-server has appendfsync everysec", clients, redisValueBytes),
				rows:  []versus{row},
				setup: func(e *env) ([]side, error) {
					return redisSides(e, command, pipeline, makeKeys(s.keys), shuffled(s.keys, ops))
				},
			})
		}
	}
	return lines
}

func redisSides(e *env, command string, pipeline int, keys []string, order []int32) (sides []side, err error) {
	db, err := copal.Open(e.path("copal"))
	if err != nil {
		return nil, err
	}
	e.after(db.Close)
	server := &redisapi.Server{DB: db}
	address, err := serve(e, server.Serve, redisapi.ErrServerClosed, server.Shutdown)
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{"copal": address}
	if redisProgram != "" {
		dir := e.path("redis")
		if err := os.Mkdir(dir, 0o777); err != nil {
			return nil, err
		}
		p, err := redisserver.Run(redisProgram, dir, "--appendonly", "yes", "--appendfsync", "everysec")
		if err != nil {
			return nil, err
		}
		e.after(func() error { p.Kill(); return nil })
		addresses["redis-server"] = p.Address
	}
	for _, name := range []string{"copal", "redis-server"} {
		if addresses[name] == "" {
			continue
		}
		free, err := connect(e, addresses[name])
		if err != nil {
			return nil, err
		}
		all := shuffled(len(keys), len(keys))
		if _, err := parallel(clients, all, func(part []int32) error { return redisSets(free, keys, part, 16, 0) }); err != nil {
			return nil, err
		}
		sides = append(sides, redisSide(name, free, command, pipeline, keys, order))
	}
	return sides, nil
}

func redisSide(name string, free chan *connection, command string, pipeline int, keys []string, order []int32) side {
	w := workload{name: name, workers: clients, order: order}
	switch command {
	case "SET":
		w.loop = func(round int, part []int32) error { return redisSets(free, keys, part, pipeline, round) }
		w.check = func(round int) error { return redisGets(free, keys, spots(order), 1, round) }
	default:
		w.loop = func(_ int, part []int32) error { return redisGets(free, keys, part, pipeline, 0) }
	}
	return w.side()
}

// redisSets sets keys to their values of a round.
func redisSets(free chan *connection, keys []string, part []int32, pipeline, round int) error {
	value := newBlob(redisValueBytes)
	return pipelined(free, part, pipeline, func(dst []byte, i int32) []byte {
		value.mark(i, round)
		return resp.AppendRequest(dst, "SET", keys[i], string(value))
	}, func(i int32, reply any) error {
		if ok, _ := reply.([]byte); string(ok) != "OK" {
			return wrong(i, fmt.Sprintf("%q", reply), "OK")
		}
		return nil
	})
}

// redisGets gets keys, which have their values of a round.
func redisGets(free chan *connection, keys []string, part []int32, pipeline, round int) error {
	want := newBlob(redisValueBytes)
	return pipelined(free, part, pipeline, func(dst []byte, i int32) []byte {
		return resp.AppendRequest(dst, "GET", keys[i])
	}, func(i int32, reply any) error {
		want.mark(i, round)
		if got, _ := reply.([]byte); !bytes.Equal(got, want) {
			return wrong(i, fmt.Sprintf("%q", reply), "others")
		}
		return nil
	})
}

// pipelined sends so many requests at once, and reads the replies to them, before it sends the
// next.
func pipelined(free chan *connection, part []int32, pipeline int, request func(dst []byte, i int32) []byte, check func(i int32, reply any) error) error {
	c := <-free
	defer func() { free <- c }()
	for some := range slices.Chunk(part, pipeline) {
		c.out = c.out[:0]
		for _, i := range some {
			c.out = request(c.out, i)
		}
		if _, err := c.Write(c.out); err != nil {
			return err
		}
		for _, i := range some {
			reply, err := resp.ReadReply(c.in)
			if err != nil {
				return err
			}
			if err := check(i, reply); err != nil {
				return err
			}
		}
	}
	return nil
}
