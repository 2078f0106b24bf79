package redisapi

import (
	copaladmin "github.com/copaldb/copal/admin"
)

// fitsRedis returns an error for a value that is longer than Redis would have it.
func fitsRedis(value []byte) error {
	if len(value) > maxString {
		return errTooLong
	}
	return nil
}

// mayHoldCollection returns an error for a key of a typed map that has values: it would not read a collection.
func (c *call) mayHoldCollection(key []byte) error {
	typed, err := copaladmin.IsTyped(c.s.DB, key)
	if typed {
		return errorf("ERR key %q belongs to a typed map, which holds no collections", key)
	}
	return err
}
