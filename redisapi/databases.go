package redisapi

import "github.com/copaldb/copal/redisapi/internal/command"

// Databases is how many numbered databases there are, as Redis has by default.
const Databases = command.Databases

// Key is the raw key of a key in a numbered database. That of database 0 is the key itself. The others have the prefix
// of a map that is called after their number, "db:1" for example. Database 0 is all keys without one of these prefixes.
func Key(database int, key []byte) []byte { return command.Key(database, key) }
