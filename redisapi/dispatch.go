package redisapi

import (
	"bytes"
	"slices"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/native"
)

// dispatch carries out a request, and replies.
func (c *client) dispatch(args [][]byte) {
	c.s.counts.commands.Add(1)
	c.from = len(c.Buf)
	cmd, err := c.Shared.Table.Find(args)
	if c.Typed = err == nil && cmd.Inner != nil; c.Typed {
		args = args[1:]
		cmd, err = cmd.Inner(args)
	}
	if err == nil {
		err = c.carryOut(cmd, args)
		c.leave()
	} else if c.queue != nil {
		c.queue.bad = true
	}
	if err != nil {
		c.fail(err)
	}
	if c.Err() != nil {
		c.CutOff(c.Err()) // not even the error has found room
		c.Cut(c.from)
	}
	if c.silent() {
		c.Cut(c.from)
		c.silence.tookBack = true
	}
	queued := int64(0)
	if c.queue != nil {
		queued = int64(len(c.queue.list)) + 1
	}
	if c.queued.Load() != queued {
		c.queued.Store(queued)
	}
	c.silence.skips = c.silence.skipsNext
	c.silence.skipsNext = false
}

func (c *client) carryOut(cmd *command.Row, args [][]byte) error {
	switch g := c.Grant.Load(); {
	case g.Revoked().Err() == nil:
	case g != nil:
		c.Closing = true
		return c.reject(cmd, command.Error("NOAUTH The user has other rights now."))
	case cmd.Flags&command.NoAuth == 0:
		return c.reject(cmd, command.Error("NOAUTH Authentication required."))
	}
	if err := c.mayRun(cmd); err != nil {
		return c.reject(cmd, err)
	}
	if s := c.session.Load(); s != nil {
		if err := c.takesInSession(s, cmd, args); err != nil {
			return c.reject(cmd, err)
		}
	}
	args, ok := c.enter(cmd, args)
	if !ok {
		return nil
	}
	if c.listens() {
		c.hold()
	}
	if c.queue != nil && cmd.Flags&command.AtOnce == 0 {
		c.Row, c.Args = cmd, c.inside(cmd, args)
		err := c.mayDo()
		if err == nil && c.Typed {
			err = native.JudgeValues(&c.Call) // within EXEC the others would be carried out
		}
		if err != nil {
			c.queue.bad = true
			return c.reject(cmd, err)
		}
		return c.enqueue(cmd, args)
	}
	if cmd.Flags&command.Write != 0 && c.session.Load() == nil {
		c.Wrote()
	}
	began := c.clock
	if began.IsZero() {
		began = time.Now()
	}
	c.ran.Store(cmd)
	c.seen.Store(began.UnixNano())
	exec := cmd.Name == "exec"
	if !exec {
		c.show(cmd, args)
	}
	raw := c.inside(cmd, args)
	c.Row, c.Args = cmd, raw
	if err := c.judgeKeys(); err != nil {
		return c.reject(cmd, err)
	}
	caching := c.caching
	if c.tracks {
		c.track(cmd, args)
	}
	err := c.Execute()
	if exec { // after the commands of its queue
		c.show(cmd, args)
	}
	if caching && cmd.Name != "multi" && (cmd.Parent == nil || cmd.Parent.Name != "client") {
		c.caching = false
	}
	if c.Args == nil {
		args, raw = nil, nil // the command has waited, and they are gone
	}
	c.clock = time.Now()
	c.note(cmd, args, began, c.clock, err != nil)
	if args != nil && err == nil {
		c.s.serve(c.s.changed(nil, cmd, raw))
	}
	return err
}

// takesInSession returns an error for a command that is not allowed in the session, or for which it
// has no memory.
func (c *client) takesInSession(s *session, cmd *command.Row, args [][]byte) error {
	if err := s.takes(cmd); err != nil || !s.keeps(cmd, args) {
		return err
	}
	if s.bytes > c.s.MaxRequest {
		return command.Errorf("ERR the transaction is too long")
	}
	return c.chargeQueue(int(s.bytes))
}

// reject counts a command that is not carried out.
func (c *client) reject(cmd *command.Row, err error) error {
	c.s.figures[cmd.Number].rejected.Add(1)
	return err
}

// makesCollections are the families whose commands write collections.
var makesCollections = map[string]bool{"hash": true, "list": true, "set": true, "sorted-set": true, "geo": true, "stream": true}

// judgeKeys returns an error for keys that the user may not use or the store does not accept. It is
// called before anything is written.
func (c *client) judgeKeys() error {
	err := c.mayDo()
	if c.Row.Flags&command.Write == 0 {
		return err
	}
	c.Row.Keys.Each(c.Args, func(i int) {
		switch key := c.Args[i]; {
		case err != nil:
		case len(key) > copal.MaxKeyBytes:
			err = command.Errorf("ERR a key is longer than %d bytes", copal.MaxKeyBytes)
		case makesCollections[c.Row.Group]:
			err = c.MayHoldCollection(key)
		}
	})
	if err == nil && c.Typed {
		err = native.JudgeValues(&c.Call)
	}
	return err
}

// fail replies an error.
func (c *client) fail(err error) {
	text := command.ErrorText(err)
	c.s.counts.errors.Add(1)
	c.s.errorCounts.count(text)
	c.Error(text)
}

// inside returns the arguments of a command with raw keys.
func (c *client) inside(cmd *command.Row, args [][]byte) [][]byte {
	if c.Database.Load() == 0 {
		return args
	}
	raw := slices.Clone(args)
	cmd.Keys.Each(args, func(i int) { raw[i] = c.RawKey(args[i]) })
	return raw
}

// note updates the figures of a command that has run. args is nil for a command that has waited.
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
		entry := slow{at: began, took: took, client: c.nc.RemoteAddr().String()}
		if name := c.name.Load(); name != nil {
			entry.name = *name
		}
		c.s.slow.add(entry, args)
	}
}

// silence marks the replies that a client does not get.
type silence struct {
	off              bool
	skips, skipsNext bool // that to this command, or to the next
	tookBack         bool // a reply, since replies were last sent
}

// silent reports whether the client gets no reply to the command that runs. Its reply is made, and taken back.
func (c *client) silent() bool { return c.silence.off || c.silence.skips }

// enqueue adds a request to the queue, in copies.
func (c *client) enqueue(cmd *command.Row, args [][]byte) error {
	if cmd.Flags&command.NoMulti != 0 {
		c.queue.bad = true
		return command.Errorf("ERR Command not allowed inside a transaction")
	}
	c.queue.bytes += 256 // for q, and for the list while it grows
	for _, a := range args {
		c.queue.bytes += len(a) + 48 // for the slices
	}
	if int64(c.queue.bytes) > c.s.MaxRequest {
		c.queue.bad = true
		return command.Errorf("ERR the transaction is too long")
	}
	if err := c.chargeQueue(c.queue.bytes); err != nil {
		c.forgetQueue()
		c.queue = &queue{bad: true}
		return err
	}
	q := queued{cmd: cmd, args: make([][]byte, len(args)), typed: c.Typed}
	for i, a := range args {
		q.args[i] = bytes.Clone(a)
	}
	c.queue.list = append(c.queue.list, q)
	c.Simple("QUEUED")
	return nil
}

// chargeQueue charges the queue of the client, in steps.
func (c *client) chargeQueue(bytes int) error {
	return c.Charge(&c.charged.queue, int64(bytes)/command.ChargeStep*command.ChargeStep)
}

func (c *client) forgetQueue() {
	c.queue = nil
	c.chargeQueue(0)
}
