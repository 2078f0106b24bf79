package redisapi

import (
	"testing"

	"github.com/copaldb/copal/access"
)

// TestChannelsOfNotificationsByRight: a user with rights to some maps sends no message that passes for a notification,
// and sees no channel that names a key of another map.
func TestChannelsOfNotificationsByRight(t *testing.T) {
	_, address := newServer(t, func(s *Server) {
		s.Access = users(t, shop, access.Password("all"))
	})
	all, p, hears := dial(t, address), dial(t, address), dial(t, address)
	all.want("AUTH all", "OK")
	hears.want("AUTH all", "OK")
	p.want("AUTH shop", "OK")
	names := []string{"__keyspace@0__:prices:1", "__keyspace@0__:secrets:1", "__keyspace@1__:prices:1", "__keyspace@99__:prices:1", "__keyspace@x", "__keyevent@0__:set", "__redis__:invalidate", "news"}
	for i, name := range names {
		hears.want("SUBSCRIBE "+name, `["subscribe" "`+name+`" `+string(rune('1'+i))+`]`)
	}
	for _, name := range names[:7] {
		for _, command := range []string{"PUBLISH ", "SPUBLISH "} {
			p.want(command+name+" forged", "(error) NOPERM User shop has no permissions to access the '"+name+"' channel")
		}
	}
	p.want("PUBLISH news true", "1")
	hears.wantNext(`["message" "news" "true"]`)
	all.want("PUBLISH __keyevent@0__:set of-an-administrator", "1")
	hears.wantNext(`["message" "__keyevent@0__:set" "of-an-administrator"]`)
	p.want("PUBSUB CHANNELS", `["__keyevent@0__:set" "__keyspace@0__:prices:1" "__redis__:invalidate" "news"]`)
	p.want("PUBSUB CHANNELS *secrets*", `[]`)
	p.want("PUBSUB NUMSUB __keyspace@0__:secrets:1 __keyspace@0__:prices:1", `["__keyspace@0__:secrets:1" 0 "__keyspace@0__:prices:1" 1]`)
	all.want("PUBSUB NUMSUB __keyspace@0__:secrets:1", `["__keyspace@0__:secrets:1" 1]`)
}
