package redisapi

import (
	"bytes"
	"strconv"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// Channels have no rights, but for those of notifications: their names and messages are about keys.

// invalidated is the channel of client tracking for clients that speak RESP2.
const invalidated = "__redis__:invalidate"

var (
	ofKeys   = []byte("__keyspace@")
	ofEvents = []byte("__keyevent@")
)

// isOfNotices reports whether a channel is one of keyspace notifications, or of client tracking.
func isOfNotices(channel []byte) bool {
	return bytes.HasPrefix(channel, ofKeys) || bytes.HasPrefix(channel, ofEvents) || string(channel) == invalidated
}

// mayPublish returns an error where the client must not send messages to a channel: a notification is believed by those
// that hear it.
func (c *client) mayPublish(channel []byte) error {
	if isOfNotices(channel) && !c.Grant.Load().MayAdminister() {
		return command.Errorf("NOPERM User %s has no permissions to access the '%.128s' channel", c.user(), channel)
	}
	return nil
}

// maySee reports whether the client may see that there is a channel. One that names a key is for those that may read
// the key.
func (c *client) maySee(channel []byte) bool {
	rest, is := bytes.CutPrefix(channel, ofKeys)
	if !is {
		return true
	}
	number, key, _ := bytes.Cut(rest, []byte("__:"))
	n, err := strconv.Atoi(string(number))
	if err != nil || n < 0 || n >= command.Databases { // of no key
		return c.Grant.Load().MayAdminister()
	}
	return c.Grant.Load().MayRead(command.Key(n, key))
}
