package redisapi

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// monitors are the clients that see all commands.
type monitors struct {
	count atomic.Int64
	mu    sync.Mutex
	by    map[int64]*client
}

func (c *client) monitor() error {
	c.hold()
	m := &c.s.monitors
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[int64]*client{}
	}
	m.by[c.id] = c
	m.count.Store(int64(len(m.by)))
	c.monitors = true
	c.OK()
	return nil
}

func (c *client) stopMonitor() {
	if !c.monitors {
		return
	}
	c.monitors = false
	m := &c.s.monitors
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.by, c.id)
	m.count.Store(int64(len(m.by)))
}

// show sends a command of the client to the clients in MONITOR. Commands of administrators, and
// commands that may have a password, are left out.
func (c *client) show(cmd *command.Row, args [][]byte) {
	m := &c.s.monitors
	if m.count.Load() == 0 || cmd.Flags&(command.Admin|command.NoAuth) != 0 {
		return
	}
	now := time.Now()
	line := fmt.Appendf(nil, "%d.%06d [%d %s]", now.Unix(), now.Nanosecond()/1000, c.Database.Load(), c.nc.RemoteAddr())
	for _, a := range args {
		line = append(line, ' ')
		line = appendQuoted(line, a[:min(len(a), max(mostPending-len(line), 0))]) // no monitor takes a longer line
	}
	text := string(line)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, to := range m.by {
		to.push(func(r *resp.Reply) { r.Simple(text) })
	}
}

// appendQuoted appends bytes as Redis quotes them.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, b := range text {
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, `\n`...)
		case b == '\r':
			dst = append(dst, `\r`...)
		case b == '\t':
			dst = append(dst, `\t`...)
		case b == '\a':
			dst = append(dst, `\a`...)
		case b == '\b':
			dst = append(dst, `\b`...)
		case b < ' ' || b > '~':
			dst = append(dst, `\x`...)
			dst = append(dst, strconv.FormatInt(int64(b)+0x100, 16)[1:]...)
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}
