package redisapi

import (
	"bytes"
	"strconv"

	"github.com/copaldb/copal/access"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// Only channels of notifications are restricted, because their names and messages are about keys.

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

// mayPublish returns an error if a user must not send messages to a channel, because its listeners
// take every message for a notification.
func mayPublish(g *access.Grant, user string, channel []byte) error {
	if isOfNotices(channel) && !g.MayAdminister() {
		return command.Errorf("NOPERM User %s has no permissions to access the '%.128s' channel", user, channel)
	}
	return nil
}

// maySee reports whether a user may see that a channel exists. If its name has a key, the user
// needs the right to read the key.
func maySee(g *access.Grant, channel []byte) bool {
	rest, is := bytes.CutPrefix(channel, ofKeys)
	if !is {
		return true
	}
	number, key, _ := bytes.Cut(rest, []byte("__:"))
	n, err := strconv.Atoi(string(number))
	if err != nil || n < 0 || n >= command.Databases { // of no key
		return g.MayAdminister()
	}
	return g.MayRead(command.Key(n, key))
}
