// Package redistest holds the tests of package redisapi that need client libraries of Redis, which users of copal are
// not to find in their go.sum for the sake of tests.
package redistest
