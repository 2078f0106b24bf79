// Package redisstream is the form of a stream of Redis in the store: the names and values of its elements.
package redisstream
