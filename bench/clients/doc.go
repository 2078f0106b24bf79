// Package clients tests package redisapi with client libraries of Redis, which the module of copal
// does not need.
package clients
