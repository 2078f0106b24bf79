// Package strangers bounds the connections whose clients nobody knows yet, apart from those of known ones: so strangers
// keep no user out, and users no probe.
package strangers
