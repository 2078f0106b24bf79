// Package redisserver starts redis-server for tests and benchmarks, which compare this project with
// it.
package redisserver
