// Package pebbledb has pebble as one of the stores of package rivals. It is here because its module is one that no user
// of copal is to have.
package pebbledb
