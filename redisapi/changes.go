package redisapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// changesBytes limits the bytes of changes that wait for a client. A single change may have more.
const changesBytes = 1 << 20

// changes is the feed of a client after COPAL.FEED OPEN. A goroutine reads the watch, and keeps
// encoded changes until the client asks for them.
type changes struct {
	cancel context.CancelFunc
	gone   chan struct{} // closed when the goroutine has ended
	taken  chan struct{} // has an element when there is room again

	mu    sync.Mutex // guards the fields below; waiting.mu is not taken with it held
	list  [][]byte
	bytes int
	ended bool
	err   error  // why it has ended, nil if all changes were read
	wake  func() // the client, while it waits in COPAL.FEED NEXT
}

// run reads the watch until it ends.
func (f *changes) run(ctx context.Context, db *copal.DB, g *access.Grant, opts []copal.WatchOption) {
	defer close(f.gone)
	for change, err := range db.Watch(ctx, opts...) {
		if err != nil {
			f.end(err)
			return
		}
		if !f.put(ctx, appendChange(&change, g)) {
			return
		}
	}
	f.end(nil)
}

// put adds a change once there is room. It reports false when the feed is closed.
func (f *changes) put(ctx context.Context, change []byte) bool {
	for {
		f.mu.Lock()
		if f.bytes == 0 || f.bytes+len(change) <= changesBytes {
			break
		}
		f.mu.Unlock()
		select {
		case <-f.taken:
		case <-ctx.Done():
			return false
		}
	}
	f.list = append(f.list, change)
	f.bytes += len(change)
	f.wakeLocked()
	return true
}

func (f *changes) end(err error) {
	f.mu.Lock()
	f.ended, f.err = true, err
	f.wakeLocked()
}

// wakeLocked gives f.mu back, and wakes the client if it waits.
func (f *changes) wakeLocked() {
	wake := f.wake
	f.wake = nil
	f.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// appendChange returns a change in the form of its reply: the names and values of the fields other
// than zero. Values are those of Raw.Load. A value that cannot be read is replaced by its error.
func appendChange(change *copal.Change, g *access.Grant) []byte {
	var list resp.Reply
	n := 0
	name := func(text string) {
		n += 2
		list.BulkString(text)
	}
	text := func(of string, b []byte, err error) {
		switch {
		case err == nil && b != nil:
			name(of)
			list.Bulk(b)
		case err != nil && !command.IsMissing(err):
			name(of + "error")
			list.BulkString(command.ErrorText(err))
		}
	}
	number := func(of string, i int64) {
		if i != 0 {
			name(of)
			list.Int(i)
		}
	}
	flag := func(of string, yes bool) {
		if yes {
			number(of, 1)
		}
	}
	moment := func(of string, t time.Time) {
		if !t.IsZero() {
			number(of, t.UnixMilli())
		}
	}
	text("key", change.Key, nil)
	text("to", change.To, nil)
	flag("deleted", change.Deleted)
	flag("expired", change.Expired)
	flag("range", change.Range)
	if change.Range {
		if _, rest := copaladmin.RangeOf(change); len(rest) > 0 {
			text("rest", rest, nil)
		}
	}
	flag("dropped", change.Dropped)
	flag("idle", change.Idle)
	flag("more", change.More)
	number("seq", int64(change.Seq))
	moment("time", change.Time)
	moment("deadline", change.Deadline)
	if change.Collection != "" {
		text("collection", []byte(change.Collection), nil)
	}
	text("element", change.Element, nil)
	flag("created", change.Created)
	if g.MayRead(change.From) {
		text("from", change.From, nil)
	}
	if change.Collection == "" || change.Element != nil {
		value, err := change.Value()
		text("value", notNil(value), err)
		if value, err = change.Old(); !errors.Is(err, copal.ErrHandle) {
			text("old", notNil(value), err)
		}
	}
	var out resp.Reply
	out.Array(n)
	return append(out.Buf, list.Buf...)
}

// notNil returns a copy of value that is not nil, so that an empty value is shown.
func notNil(value []byte) []byte { return append([]byte{}, value...) }
