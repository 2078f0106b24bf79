// Package pebbledb has pebble as one of the stores of package rivals. It is here because users of
// copal do not need its module.
package pebbledb
