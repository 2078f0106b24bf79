// Package backup copies a store to another place while it is written to, brings the copy up to
// date, and makes a store of it again.
//
// It is a room above the engine, and needs one point of the log from it.
package backup
