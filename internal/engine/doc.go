// Package engine joins the log and its index: it keeps bytes under keys.
//
// The log is the database. A write is one record appended to it; an index has the place of the
// newest record of each key. The index is made from the log, never the other way round.
//
// A key belongs to the table of the map that its bytes before the first colon
// name, or to the raw table when no such map was declared. Typed maps, raw keys
// and servers are all users of the same tables.
//
// The locks, and the order in which they are taken, are in docs/architecture.md. No lock is held while a
// function of the caller runs.
package engine
