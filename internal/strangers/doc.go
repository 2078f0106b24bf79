// Package strangers bounds the connections of clients that have not authenticated, apart from those
// of known ones: so strangers keep no user out, and users no probe.
package strangers
