// Command redis measures the Redis server of copal beside redis-server, with redis-benchmark: how
// many commands a second each takes, the latency that 99 of 100 stay below, and the processor time
// of the server for a command.
//
//	go run ./redis                      # all lines, 3 rounds: five minutes
//	go run ./redis -quick               # fewer commands: a minute, and noisier
//	go run ./redis -run '^write P16'    # some lines
//
// Both servers have an empty store on the same disk. In each round they take turns with the same
// load. `write` is compared with `appendfsync everysec` and `fsync` with `always`, the nearest
// settings: a write that copal has acknowledged is in the kernel, and survives kill -9.
package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal/bench/internal/serving"
)

var (
	rounds  = flag.Int("rounds", 3, "rounds, of which the medians are shown")
	quick   = flag.Bool("quick", false, "a fifth of the commands")
	only    = flag.String("run", "", "regular expression of the lines to measure")
	clients = flag.Int("clients", 50, "connections")
	dir     = flag.String("dir", "", "where the stores are made, and removed")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// policy is the durability of an acknowledged write.
type policy struct {
	name, copal, redis string
	pipelines          []int
	commands           []string
}

var policies = []policy{
	{"write", "write", "everysec", []int{1, 16, 32}, []string{"SET", "GET", "INCR", "MSET", "LPUSH", "ZADD"}},
	{"fsync", "fsync", "always", []int{1, 16}, []string{"SET", "INCR"}},
}

// commandsOf returns the number of commands in a round of a line.
func commandsOf(p *policy, command string, pipeline int) int {
	n := 100_000
	if pipeline > 1 {
		n = 500_000
	}
	if command == "MSET" { // of ten keys
		n /= 5
	}
	if p.name == "fsync" {
		n /= 5
	}
	if *quick {
		n /= 5
	}
	return n
}

func run() (err error) {
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	for _, program := range []string{"redis-server", "redis-benchmark"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: Debian has it in redis-server and redis-tools", err)
		}
	}
	work, err := os.MkdirTemp(*dir, "copal-bench-redis-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	binary, err := serving.Build(work)
	if err != nil {
		return err
	}
	fmt.Printf("%-18s %10s %10s %7s  %9s %9s %7s  %9s %9s %7s\n", "", "copal/s", "redis/s", "speed", "p99 ms", "p99 ms", "time", "cpu µs", "cpu µs", "time")
	for i := range policies {
		if err := policies[i].measure(work, binary, wanted); err != nil {
			return err
		}
	}
	return nil
}

// measure prints the lines of a policy. Each line begins with empty stores.
func (p *policy) measure(work, binary string, wanted *regexp.Regexp) error {
	for _, pipeline := range p.pipelines {
		for _, command := range p.commands {
			name := fmt.Sprintf("%s P%d %s", p.name, pipeline, command)
			if !wanted.MatchString(name) {
				continue
			}
			ours, err := serving.Start(filepath.Join(work, "ours"), serving.Copal(binary, p.copal))
			if err != nil {
				return err
			}
			theirs, err := serving.Start(filepath.Join(work, "theirs"), serving.Redis(p.redis))
			if err != nil {
				return errors.Join(err, ours.Stop())
			}
			err = p.line(name, command, pipeline, server{ours}, server{theirs})
			if err = errors.Join(err, ours.Stop(), theirs.Stop()); err != nil {
				return err
			}
		}
	}
	return nil
}

// line measures both in turn, and prints the medians and the medians of the ratios.
func (p *policy) line(name, command string, pipeline int, ours, theirs server) error {
	n := commandsOf(p, command, pipeline)
	if command == "GET" { // of keys that are there
		for _, s := range []server{ours, theirs} {
			if _, err := s.load("SET", 16, 100_000); err != nil {
				return err
			}
		}
	}
	var a, b []figures
	for round := range *rounds {
		sides := []server{ours, theirs}
		if round%2 == 1 {
			slices.Reverse(sides)
		}
		for _, s := range sides {
			f, err := s.load(command, pipeline, n)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if s == ours {
				a = append(a, f)
			} else {
				b = append(b, f)
			}
		}
	}
	fmt.Printf("%-18s", name)
	for i, of := range []func(figures) float64{
		func(f figures) float64 { return f.perSecond }, func(f figures) float64 { return f.p99 }, func(f figures) float64 { return f.cpu },
	} {
		var mine, other, ratio []float64
		for r := range a {
			mine, other, ratio = append(mine, of(a[r])), append(other, of(b[r])), append(ratio, of(a[r])/of(b[r]))
		}
		format := " %10.0f %10.0f %6.2fx "
		if i > 0 {
			format = " %9.2f %9.2f %6.2fx "
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

// figures are those of one load.
type figures struct {
	perSecond float64
	p99       float64 // milliseconds
	cpu       float64 // microseconds of the server for a command
}

// server is a process that redis-benchmark loads.
type server struct{ *serving.Server }

// load runs redis-benchmark once.
func (s server) load(command string, pipeline, n int) (f figures, err error) {
	before, err := s.ProcessorTime()
	if err != nil {
		return f, err
	}
	out, err := exec.Command("redis-benchmark", "-p", s.Port, "-c", strconv.Itoa(*clients), "-n", strconv.Itoa(n), "-P", strconv.Itoa(pipeline),
		"-r", "100000", "-d", "100", "-t", strings.ToLower(command), "--csv").Output()
	if err != nil {
		return f, fmt.Errorf("redis-benchmark: %w", err)
	}
	after, err := s.ProcessorTime()
	if err != nil {
		return f, err
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) < 2 {
		return f, cmp.Or(err, fmt.Errorf("redis-benchmark printed %q", out))
	}
	head, row := rows[0], rows[len(rows)-1]
	column := func(name string) float64 {
		v, parse := strconv.ParseFloat(row[slices.Index(head, name)], 64)
		err = errors.Join(err, parse)
		return v
	}
	f.perSecond, f.p99 = column("rps"), column("p99_latency_ms")
	f.cpu = float64((after - before).Microseconds()) / float64(n)
	return f, err
}
