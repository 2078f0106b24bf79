package redisapi

import (
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
		if err := s.takes(c, cmd, args); err != nil {
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
	c.Missed = false
	err := c.Execute()
	if exec { // behind what it has carried out
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
	if args != nil && c.Missed && c.s.notified()&notifyMiss != 0 {
		c.s.missedKeys(cmd, raw)
	}
	return err
}

// reject counts a command that is not carried out.
func (c *client) reject(cmd *command.Row, err error) error {
	c.s.figures[cmd.Number].rejected.Add(1)
	return err
}

// makesCollections are the families whose commands write collections.
var makesCollections = map[string]bool{"hash": true, "list": true, "set": true, "sorted-set": true, "geo": true, "stream": true}

// judgeKeys returns an error for keys that the user may not have, or the store does not take, before anything is
// written.
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

// inside are the arguments of a command with raw keys.
func (c *client) inside(cmd *command.Row, args [][]byte) [][]byte {
	if c.Database.Load() == 0 {
		return args
	}
	raw := slices.Clone(args)
	cmd.Keys.Each(args, func(i int) { raw[i] = c.RawKey(args[i]) })
	return raw
}
