// Package events has the keyspace events of Redis: their names and classes, and the events of the
// commands of a server until the feed reports the changes of these commands.
package events
