// Package serving runs servers of the protocol of Redis for benchmarks.
package serving
