// Package rdb is the form in which Redis keeps values: of a key in a dump, which DUMP returns and
// RESTORE takes, and of all keys in the files that it saves.
//
// It writes single values, in the plain types, which every Redis from version 5 on reads, and
// streams as Redis 7.0 does. It reads strings, lists, sets, sorted sets, hashes and streams as
// Redis up to 7.4 and Valkey up to 8 write them, and skips other types.
package rdb
