package redisapi

import (
	"math"
	"time"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// pause holds commands back for a time. If an earlier pause is not over, the new one lasts at least
// as long as that, and holds at least as many commands.
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
