package redisapi

import (
	"bytes"

	copaladmin "github.com/copaldb/copal/admin"
)

// fits returns an error for a value that is too long, or one that the typed map of its key would not read.
func (c *call) fits(key, value []byte) error {
	if len(value) > maxString {
		return errTooLong
	}
	if bytes.IndexByte(key, ':') < 0 {
		return nil // it belongs to no map
	}
	err := copaladmin.Fits(c.s.DB, key, value)
	if isType(err) {
		return errorf("ERR %v", err)
	}
	return err
}

// mayHoldCollection returns an error for a key of a typed map that has values: it would not read a collection.
func (c *call) mayHoldCollection(key []byte) error {
	if bytes.IndexByte(key, ':') >= 0 && c.fits(key, nil) != nil { // nothing is no JSON
		return errorf("ERR key %q belongs to a typed map, which holds no collections", key)
	}
	return nil
}

// allFit is fits of keys and values.
func (c *call) allFit(list [][]byte) error {
	for i := 0; i < len(list); i += 2 {
		if err := c.fits(list[i], list[i+1]); err != nil {
			return err
		}
	}
	return nil
}
