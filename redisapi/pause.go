package redisapi

import (
	"bytes"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// CLIENT PAUSE holds the commands of clients back, those that write or all, for a time. A command that is held has not
// begun: its client waits as one that waits for a key does, and goes on when the pause is over. It is not carried out
// for a client that goes away meanwhile, nor when the server shuts down.
//
// A client that writes holds a lock that it shares with others that do. The pause takes it alone, so no write is under
// way when CLIENT PAUSE has been answered. Clients that wait for a key are served by others, with waiting.mu held, and
// the pause takes that, too: those whose command a pause holds are served when it is over.

// pausing is what a server holds back.
type pausing struct {
	writing sync.RWMutex          // shared by clients that write, alone while a pause begins; taken before waiting.mu
	now     atomic.Pointer[pause] // nil for none; changed with waiting.mu held
}

type pause struct {
	all  bool // not only commands that write
	end  time.Time
	over chan struct{} // closed when it is over, or another is in its place
}

// holds reports whether the pause holds a command, of which writes says whether it writes.
func (p *pause) holds(writes bool) bool { return p != nil && (p.all || writes) }

// writes is the same for EXEC.
func (q *queue) writes() bool {
	for _, each := range q.list {
		if each.cmd.Writes() {
			return true
		}
	}
	return false
}

// enter waits until no pause holds the command, and returns its arguments. While a command that writes is carried out
// no pause begins, until leave. ok is false if the client ends.
func (c *client) enter(cmd *command.Row, args [][]byte) (_ [][]byte, ok bool) {
	p := &c.s.pausing
	writes := cmd.Writes() || cmd.Name == "exec" && c.queue != nil && c.queue.writes()
	for kept := false; ; {
		if writes {
			p.writing.RLock()
			c.entered = true
		}
		if !p.now.Load().holds(writes) {
			return args, true
		}
		c.leave()
		if !kept {
			kept, args = true, cloned(args)
		}
		if !c.waitOut(writes) {
			return nil, false
		}
	}
}

// leave lets pauses begin again.
func (c *client) leave() {
	if c.entered {
		c.entered = false
		c.s.pausing.writing.RUnlock()
	}
}

// cloned are arguments whose buffer may be in other hands.
func cloned(args [][]byte) (list [][]byte) {
	for _, a := range args {
		list = append(list, bytes.Clone(a))
	}
	return list
}

// waitOut waits until the pause is over, and reports whether the client is still there.
func (c *client) waitOut(writes bool) bool {
	if err := c.flush(); err != nil || c.Closing {
		c.Closing = true
		return false
	}
	w := &c.s.waiting
	b := &blocked{c: c}
	w.mu.Lock()
	if !c.s.pausing.now.Load().holds(writes) {
		w.mu.Unlock()
		return true
	}
	c.setReadDeadline(time.Time{})
	if w.held == nil {
		w.held = map[*blocked]struct{}{}
	}
	w.held[b] = struct{}{}
	w.addLocked(b)
	c.waits.Store(b)
	w.mu.Unlock()
	err := c.untilServed(b)
	c.waits.Store(nil)
	c.setReadDeadline(time.Time{})
	c.clock = time.Time{}
	c.Closing = err != nil
	return err == nil
}

// pause holds commands back for a time, and for what is left of an earlier pause, of which it keeps the kind if that
// holds more.
func (s *Server) pause(all bool, most time.Duration) {
	p := &pause{all, time.Now().Add(most), make(chan struct{})}
	s.pausing.writing.Lock()
	defer s.pausing.writing.Unlock()
	s.waiting.mu.Lock()
	defer s.waiting.mu.Unlock()
	if was := s.pausing.now.Load(); was != nil {
		close(was.over)
		p.all = p.all || was.all
		if was.end.After(p.end) {
			p.end = was.end
		}
	} else if most == 0 {
		return
	}
	s.pausing.now.Store(p)
	s.senders.Go(func() {
		select {
		case <-time.After(time.Until(p.end)):
			s.resume(p)
		case <-p.over:
		case <-s.shared.Context.Done():
		}
	})
}

// resume ends a pause, unless it is over or another is in its place.
func (s *Server) resume(p *pause) {
	w := &s.waiting
	w.mu.Lock()
	ends := p != nil && s.pausing.now.CompareAndSwap(p, nil)
	if ends {
		close(p.over)
		for b := range w.held {
			w.endLocked(b, true)
		}
	}
	w.mu.Unlock()
	if ends {
		s.serve(w.all())
	}
}

// clientPause is CLIENT PAUSE. Within MULTI it pauses once that has committed.
func (c *client) clientPause() error {
	if len(c.Args) > 4 {
		return command.Errorf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try CLIENT HELP.", c.Args[1])
	}
	all := len(c.Args) == 3 || command.Is(c.Args[3], "ALL")
	if !all && !command.Is(c.Args[3], "WRITE") {
		return command.Errorf("ERR CLIENT PAUSE mode must be WRITE or ALL")
	}
	ms, err := command.ParseInt(c.Args[2])
	switch {
	case err != nil:
		return command.Errorf("ERR timeout is not an integer or out of range")
	case ms < 0:
		return command.Errorf("ERR timeout is negative")
	case ms > math.MaxInt64-time.Now().UnixMilli():
		return command.Errorf("ERR timeout is out of range")
	}
	most := time.Duration(min(ms, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	c.Later(func() {
		c.leave() // if it is within MULTI
		c.s.pause(all, most)
	})
	c.OK()
	return nil
}

func (c *client) clientUnpause() error {
	c.Later(func() { c.s.resume(c.s.pausing.now.Load()) })
	c.OK()
	return nil
}
