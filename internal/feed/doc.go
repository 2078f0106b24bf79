// Package feed turns the log into changes of entries: each once, in order, from any sequence number
// in the history on.
//
// It is a layer above the engine. It reads the log after the writers, and keeps unread segments
// with a hold on the history.
package feed
