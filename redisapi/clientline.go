package redisapi

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"syscall"
	"time"
)

// describe returns the line of the client in CLIENT LIST, with the fields of Redis 7.2 in their
// order. Other goroutines may call it.
func (c *client) describe() string {
	now := time.Now()
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	ran := "NULL"
	if cmd := c.ran.Load(); cmd != nil {
		ran = cmd.FullName()
	}
	heard, version := c.listening()
	m := c.memory()
	events := "r"
	if m.oll > 0 {
		events = "rw"
	}
	flags, redirect := c.trackFlags()
	if heard != [kindsOfChannels]int{} {
		flags += "P"
	}
	if c.waits.Load() != nil {
		flags += "b"
	}
	multi := c.queued.Load() - 1
	if c.session.Load() != nil || multi >= 0 {
		flags += "x"
	}
	if _, unix := c.nc.RemoteAddr().(*net.UnixAddr); unix {
		flags += "U"
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d multi=%d "+
		"qbuf=%d qbuf-free=%d argv-mem=%d multi-mem=%d rbs=%d rbp=%d obl=0 oll=%d omem=%d tot-mem=%d events=%s cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s",
		c.id, c.nc.RemoteAddr(), c.nc.LocalAddr(), c.descriptor(), text(c.name.Load()), int(now.Sub(c.since).Seconds()),
		int(now.Sub(time.Unix(0, c.seen.Load())).Seconds()), cmp.Or(flags, "N"), c.Database.Load(), heard[channels], heard[patterns], heard[shardChannels], multi,
		m.qbuf, m.qbufFree, m.argvMem, m.multiMem, readBytes, readBytes, m.oll, m.omem, m.total, events,
		ran, c.user(), redirect, version, text(c.libName.Load()), text(c.libVersion.Load()))
}

// trackFlags returns the flags of a client that tracks keys, and the client that gets the messages:
// 0 for itself, and -1 if it does not track.
func (c *client) trackFlags() (flags string, redirect int64) {
	t := &c.s.tracking
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by[c.id] != c {
		return "", -1
	}
	flags = "t"
	if c.broken {
		flags += "R"
	}
	if c.trackOptions.bcast {
		flags += "B"
	}
	return flags, c.trackOptions.redirect
}

// descriptor returns the file descriptor of the connection, or -1 if it has none.
func (c *client) descriptor() (fd int) {
	fd = -1
	nc := c.nc
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	if file, ok := nc.(syscall.Conn); ok {
		if raw, err := file.SyscallConn(); err == nil {
			raw.Control(func(n uintptr) { fd = int(n) })
		}
	}
	return fd
}
