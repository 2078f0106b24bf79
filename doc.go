// Package copal keeps Go maps: typed, used at the speed of memory, and there again
// after a crash, a deploy or a reboot.
//
//	db, err := copal.Open("app.db")
//	users, err := copal.OpenMap[string, User](db, "users")
//	err = users.Set("alice", User{Name: "Alice", Age: 28})
//	alice, ok := users.Get("alice")
//
// Four nouns are all there is to know. A [DB] is a directory with one append-only log. A [Map] is a
// typed view of the keys that begin with its name and a colon; [Raw] is the same entries as bytes. A
// codec turns values into the bytes of a record and back; with the default, JSON, the log reads like
// a diary. An [Option] is a setting.
//
// # Handles
//
// Four methods return the same thing to be used in another way, of maps, raw bytes, hashes, lists, sets
// and sorted sets alike:
//
//	users.With(copal.FSync)   writes that are as durable as it says
//	users.At(snapshot)        reads at a moment; a write is ErrSnapshot
//	users.In(tx)              reads and writes in a transaction
//	users.Backward()          walks the other way round
//
// The verbs are the same on all of them. Ranges are half-open: Between(a, b) has a and not b, whichever
// way it is walked. A value that is returned is the caller's own; Peek shares one, for speed.
//
// # Durability
//
// Set returns when the record is in the log: it survives the death of the process, and the loss of power
// after the sync interval, a second by default. SetFSync returns when it is on the disk. SetAsync
// returns at once: the log learns of the value within the interval, and of several values of one key
// the last. Every write returns its error, and one that failed has not happened; docs/durability.md
// says precisely what a crash can leave.
//
// # Types that change
//
// The log keeps the schema of every value, so one that was stored as another struct is read field by field:
// fields may be added, which are zero then, removed, reordered, and made wider, or narrower where the numbers
// fit. What does not fit is [ErrType] and stays as it is. A value keeps its form until it is written again, by
// Update too: then fields that the struct does not have any more are gone. A tag lets a field keep its stored
// name under another one in Go: json:"name", and for codec.Binary also copal:"name".
//
// # Errors
//
// All errors are values to be tested with errors.Is: [ErrNotFound], [ErrLocked],
// [ErrCorrupt] and so on. After a failed write whose outcome cannot be known, and
// after any failed sync, the store serves reads and refuses writes until it is opened
// again. Nothing in this package panics or exits because of a disk.
package copal
