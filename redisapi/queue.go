package redisapi

import (
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// transacting is the part of a client for transactions and changes.
type transacting struct {
	queued  atomic.Int64 // of queue: one more than the commands in it, 0 without; others read it
	queue   *queue       // since MULTI, nil without
	watches []watched
	session atomic.Pointer[session] // since COPAL.BEGIN; others look whether there is one
	changes *changes                // since COPAL.FEED OPEN, nil without
}

// queue has the commands of a client between MULTI and EXEC.
type queue struct {
	list  []queued
	bytes int
	bad   bool // a command was refused when it was queued: EXEC carries out none
}

type queued struct {
	cmd   *command.Row
	args  [][]byte
	raw   [][]byte // with raw keys, once it is carried out
	typed bool

	began, ended time.Time
	failed       bool
}

// watched has the keys of a WATCH, and the snapshot of then.
type watched struct {
	then *copal.Snapshot
	keys map[string]struct{}
}

func (w *watched) has(key []byte) bool {
	_, ok := w.keys[string(key)]
	return ok
}

// writes reports whether one of the commands writes.
func (q *queue) writes() bool {
	for _, each := range q.list {
		if each.cmd.Writes() {
			return true
		}
	}
	return false
}
