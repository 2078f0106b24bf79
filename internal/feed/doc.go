// Package feed tells the log as changes of entries: each once, in order, from any number on that
// the history reaches back to.
//
// It is a room above the engine. It reads the log behind the writers, and keeps what it has yet to
// read with a hold on the history.
package feed
