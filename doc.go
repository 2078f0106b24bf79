// Package copal keeps Go maps: typed, used at the speed of memory, and there again after a crash, a
// deploy or a reboot.
//
//	db, err := copal.Open("app.db")
//	users, err := copal.OpenMap[string, User](db, "users")
//	err = users.Set("alice", User{Name: "Alice", Age: 28})
//	alice, ok := users.Get("alice")
//
// There are four nouns to know:
//
//   - A [DB] is a directory with one append-only log.
//   - A [Map] is a typed view of the keys that begin with its name and a colon. [Raw] shows the
//     same entries as bytes.
//   - A codec turns values into the bytes of a record and back. With the default, JSON, the log
//     reads like a diary.
//   - An [Option] is a setting.
//
// # Handles
//
// Maps, raw bytes, hashes, lists, sets and sorted sets share four methods. Each returns a handle of
// the same type that is used in another way:
//
//	users.With(copal.FSync)   writes are as durable as it says
//	users.At(snapshot)        reads see one moment; a write is ErrSnapshot
//	users.In(tx)              reads and writes belong to a transaction
//	users.Backward()          walks go the other way round
//
// The verbs are the same on all of them. Ranges are half-open: Between(a, b) includes a and
// excludes b, in whichever direction it is walked. A returned value is the caller's own; Peek
// shares one, for speed.
//
// # Beyond one entry
//
//   - [DB.Update] changes entries of any number of maps, all or none; [DB.View] reads one moment.
//   - From, Until, Between, Prefix and Backward walk in the order of the keys, which may be structs.
//     [Ordered] keeps a map in that order.
//   - SetTTL, Expire and [WithTTL] let entries go at a deadline.
//   - [OpenHash], [OpenList], [OpenSet] and [OpenSortedSet] keep many elements under one key.
//   - [Map.Watch] waits for the next change, without polling; [DB.Watch] yields every change in
//     order.
//   - [DB.Snapshot] is the present to read from later, [DB.AsOf] the past.
//   - [DB.Backup] copies the store while it is written to, and [ReadOnly] follows it in another process.
//   - [OpenMemory] is for tests.
//
// docs/guide.md has recipes: a queue, sessions, an index, pages, and more.
//
// # Durability
//
// Set returns when the record is in the log. It then survives the death of the process, and after
// the sync interval, a second by default, the loss of power. SetFSync returns when the record is on
// the disk. SetAsync returns at once, and the value reaches the log within the interval; of several
// values of one key, only the last does. Every write returns its error, and a write that failed has
// not happened. docs/durability.md lists every state that a crash can leave.
//
// # Types that change
//
// The log keeps the schema of every value, so a value that was stored as another struct is read
// field by field. Fields may be added (they are zero then), removed, reordered, and made wider, or
// narrower where the numbers fit. A value that does not fit is [ErrType] when it is read, and stays
// in the store unchanged. A value keeps its form until it is written again, by Update too; fields
// that the struct no longer has are gone then. A tag keeps a field's stored name when its Go name
// changes: json:"name", and for codec.Binary also copal:"name".
//
// # Errors
//
// All errors are values to be tested with errors.Is: [ErrNotFound], [ErrLocked], [ErrCorrupt] and
// so on. After a failed write whose outcome cannot be known, and after any failed sync, the store
// serves reads and refuses writes until it is opened again. Nothing in this package panics or exits
// because of a disk.
package copal
