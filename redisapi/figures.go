package redisapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/sparing"

	"github.com/copaldb/copal/internal/exposition"
)

// Figures of commands that have run, for INFO, and the latest commands that took long.

// statistics are the figures of a server.
type statistics struct {
	figures     []figures // of commands, by their numbers
	errorCounts errorCounts
	slow        slowlog
	foreign     sparing.Log // of clients that speak another protocol
	rates       rates
	peak        atomic.Uint64 // memory, as far as INFO has asked
	saves       atomic.Int64
	savedWrites atomic.Int64 // of writes, when SAVE has run last
	lastSave    atomic.Int64 // in seconds since 1970

	_      [64]byte // the counters have cache lines of their own, as each command writes some of them
	counts counts
	_      [64]byte
}

// figures has the counts and the durations of one command.
type figures struct {
	calls, rejected, failed atomic.Int64
	took                    exposition.Histogram // of those that have not waited
}

// errorCounts counts errors by their codes, up to a bounded number of them.
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

// slowlog has the latest commands that took long.
type slowlog struct {
	threshold atomic.Int64 // microseconds; negative for none
	mu        sync.Mutex   // guards the fields below
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

// limit sets the number of commands that are kept, unless n is negative, and returns the number.
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

// add adds a command. entry has the client, the name of its connection, and the times.
func (l *slowlog) add(entry slow, args [][]byte) {
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

// counts are the counters of INFO.
type counts struct {
	connections, rejected atomic.Int64
	commands              atomic.Int64
	errors                atomic.Int64
	in, out               atomic.Int64 // bytes
	reads, writes         atomic.Int64 // of connections
	expired               atomic.Int64 // entries, while changes are read for another reason
}

// rates are commands and bytes per second between the last two samples, which are at least a second
// apart. The first sample is about the time since the start.
type rates struct {
	mu           sync.Mutex
	at           time.Time
	commands     int64
	in, out      int64
	perSecond    float64
	inKB, outKB  float64
	everComputed bool
}

// sample returns the commands, and the KiB received and sent, per second.
func (r *rates) sample(started time.Time, n *counts) (commands, in, out float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.at.IsZero() {
		r.at = started
	}
	took := now.Sub(r.at).Seconds()
	if took >= 1 || !r.everComputed && took > 0 {
		c, i, o := n.commands.Load(), n.in.Load(), n.out.Load()
		r.perSecond = max(float64(c-r.commands), 0) / took // RESETSTAT may have set them to 0
		r.inKB, r.outKB = max(float64(i-r.in), 0)/took/1024, max(float64(o-r.out), 0)/took/1024
		r.at, r.commands, r.in, r.out, r.everComputed = now, c, i, o, true
	}
	return r.perSecond, r.inKB, r.outKB
}
