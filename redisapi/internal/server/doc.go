// Package server has commands about the server that need no connection: COMMAND, and CLUSTER for a
// cluster of one shard.
package server
