// Package serving serves a store by the protocol of Redis and by HTTP.
package serving
