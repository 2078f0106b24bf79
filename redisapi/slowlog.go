package redisapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/exposition"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// What is kept about commands that have run: figures of each for INFO, and the latest that took long.

// figures are those of a command.
type figures struct {
	calls, rejected, failed atomic.Int64
	took                    exposition.Histogram // of those that have not waited
}

// errorCounts counts errors by their codes, of which a bounded number is told apart.
type errorCounts struct {
	mu sync.Mutex
	by map[string]int64
}

const mostErrorCodes = 128

func (e *errorCounts) count(text string) {
	code, _, _ := strings.Cut(text, " ")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = map[string]int64{}
	}
	if _, ok := e.by[code]; ok || len(e.by) < mostErrorCodes {
		e.by[code]++
	}
}

func (e *errorCounts) all() map[string]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.by)
}

// resetFigures sets to 0 what INFO tells of the past.
func (s *Server) resetFigures() {
	for i := range s.figures {
		f := &s.figures[i]
		for _, n := range []*atomic.Int64{&f.calls, &f.rejected, &f.failed} {
			n.Store(0)
		}
		f.took.Reset()
	}
	n := &s.counts
	for _, n := range []*atomic.Int64{&n.connections, &n.rejected, &n.commands, &n.errors, &n.in, &n.out, &n.reads, &n.writes, &n.expired, &s.shared.Hits, &s.shared.Misses} {
		n.Store(0)
	}
	s.savedWrites.Store(0)
	s.errorCounts.mu.Lock()
	clear(s.errorCounts.by)
	s.errorCounts.mu.Unlock()
}

// slowlog has the latest commands that took long.
type slowlog struct {
	threshold atomic.Int64 // microseconds; negative for none
	mu        sync.Mutex   // guards what follows
	most      int
	next      int64
	list      []slow // the latest last
}

type slow struct {
	id           int64
	at           time.Time
	took         time.Duration
	args         []string
	client, name string
}

const (
	slowArgs     = 32  // of a command, that are kept
	slowArgBytes = 128 // of an argument
)

// limit sets how many are kept, unless it is negative, and returns that.
func (l *slowlog) limit(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n >= 0 {
		l.most = n
		l.cutLocked()
	}
	return l.most
}

func (l *slowlog) cutLocked() {
	if len(l.list) > l.most {
		l.list = slices.Delete(l.list, 0, len(l.list)-l.most)
	}
}

func (l *slowlog) add(c *client, args [][]byte, at time.Time, took time.Duration) {
	entry := slow{at: at, took: took, client: c.nc.RemoteAddr().String()}
	if name := c.name.Load(); name != nil {
		entry.name = *name
	}
	for i, a := range args {
		switch {
		case i == slowArgs-1 && len(args) > slowArgs:
			entry.args = append(entry.args, fmt.Sprintf("... (%d more arguments)", len(args)-i))
		case i >= slowArgs:
		case len(a) > slowArgBytes:
			entry.args = append(entry.args, fmt.Sprintf("%s... (%d more bytes)", a[:slowArgBytes], len(a)-slowArgBytes))
		default:
			entry.args = append(entry.args, string(a))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	entry.id = l.next
	l.next++
	l.list = append(l.list, entry)
	l.cutLocked()
}

// note keeps the figures of a command that has run. The args of one that has waited are nil.
func (c *client) note(cmd *command.Row, args [][]byte, began, ended time.Time, failed bool) {
	took := ended.Sub(began)
	f := &c.s.figures[cmd.Number]
	f.calls.Add(1)
	if failed {
		f.failed.Add(1)
	}
	if args == nil {
		return
	}
	f.took.Observe(took)
	if most := c.s.slow.threshold.Load(); most >= 0 && took.Microseconds() >= most && cmd.Flags&command.NoAuth == 0 && cmd.Name != "exec" { // its commands have lines of their own
		c.s.slow.add(c, args, began, took)
	}
}

func (c *client) slowlogGet() error {
	n := int64(10)
	if len(c.Args) > 3 {
		return command.Errorf("ERR wrong number of arguments for 'slowlog|get' command")
	}
	if len(c.Args) == 3 {
		var err error
		if n, err = command.ParseInt(c.Args[2]); err != nil || n < -1 {
			return command.Errorf("ERR count should be greater than or equal to -1")
		}
	}
	l := &c.s.slow
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	if n >= 0 && n < int64(len(list)) {
		list = list[int64(len(list))-n:]
	}
	c.Array(len(list))
	for _, each := range slices.Backward(list) {
		c.Array(6)
		c.Int(each.id)
		c.Int(each.at.Unix())
		c.Int(each.took.Microseconds())
		c.Array(len(each.args))
		for _, a := range each.args {
			c.BulkString(a)
		}
		c.BulkString(each.client)
		c.BulkString(each.name)
	}
	return nil
}

func (c *client) slowlogLen() error {
	c.s.slow.mu.Lock()
	defer c.s.slow.mu.Unlock()
	c.Int(int64(len(c.s.slow.list)))
	return nil
}

func (c *client) slowlogReset() error {
	c.s.slow.mu.Lock()
	defer c.s.slow.mu.Unlock()
	c.s.slow.list = nil
	c.OK()
	return nil
}
