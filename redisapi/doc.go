// Package redisapi serves a store by the protocol of Redis, so that redis-cli and every client
// library of Redis work on it, beside the program that has it open:
//
//	db, err := copal.Open("app.db")
//	err = redisapi.Serve(ctx, db, "127.0.0.1:6379")
//
// A key of Redis is a raw key of the store, and a hash, list, set or sorted set of Redis is one of
// the store. So the entry "alice" of the map "users" is the key "users:alice" here, its value shown as
// Raw.Get shows it.
//
// docs/redis.md has the commands, and the differences from Redis.
package redisapi
