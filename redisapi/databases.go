package redisapi

import "github.com/copaldb/copal/redisapi/internal/command"

// Databases is the number of numbered databases: 16, the default of Redis.
const Databases = command.Databases

// Key returns the raw key of a key in a numbered database. In database 0 it is the key itself. In
// the others it has the prefix of a map with the name of their number, "db:1" for example. Database
// 0 has all keys without such a prefix.
func Key(database int, key []byte) []byte { return command.Key(database, key) }
