// Package remote opens a store on another machine: a server of copal, of Redis or of Valkey, or a cluster of these.
// The program stays what it is; the line changes that opens the store.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//
//		"github.com/copaldb/copal"
//		"github.com/copaldb/copal/remote"
//	)
//
//	type User struct{ Name string }
//
//	func main() {
//		db, err := remote.Open(context.Background(), "redis://:password@10.0.0.1:6379")
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer db.Close()
//		users, err := copal.OpenMap[string, User](db, "users")
//		if err != nil {
//			log.Fatal(err)
//		}
//		if err := users.Set("ann", User{"Ann"}); err != nil {
//			log.Fatal(err)
//		}
//		ann, err := users.Load("ann")
//		fmt.Println(ann.Name, err)
//	}
//
// The key of that entry is users:ann, as in a directory, and on Redis its value is the JSON text. Hashes, lists,
// sets and sorted sets are those of Redis.
//
// # What a server can do
//
//	                                        copal serve    Redis ≥ 6.2, Valkey   a cluster
//	Get, Set, Delete, Update, deadlines     yes            yes                   yes
//	hashes, lists, sets, sorted sets        yes            yes                   yes
//	FSync                                   yes            Redis ≥ 7.2, Valkey   as the server
//	batches                                 yes            yes                   keys with one {tag}
//	All, Keys                               in order       in no order           in no order
//	Len                                     at once        by reading all keys   the same
//	Clear, DeleteRange, DeletePrefix        one write      many writes           many writes
//	From, Between, Prefix, Ordered          yes            no                    no
//	Snapshot, Update and View of a DB       yes            no                    no
//	Watch                                   yes            no                    no
//	values of an earlier type               yes            no                    no
//
// What a server does not have is errors.ErrUnsupported, of the verb that needs it, or of OpenMap for an option.
// Backup, compaction, SetInMemory, Raw.Create and Raw.Open need the files of the store: they are errors with each
// server. FSync needs a server that keeps a log on its disk (appendonly); where it does not, the error is
// copal.ErrDurability.
//
// All, Keys and Len of Redis take 16 bytes of memory for each key while they run. They may miss an entry that a
// cluster moves to another node at that moment. When the server is started again meanwhile they begin anew, and yield
// each entry once all the same; so do walks over a hash or a set, also when that moves. A user who may not run INFO
// does not learn of a restart. Sorted sets and lists are read in one piece, so they should fit into memory.
//
// Sync of a cluster returns when each write that was acknowledged before is on a disk of the master that had its key
// when Sync came there, be its slot on the way from one node to another. It asks each master which others there are,
// and fails if one does not answer. It waits for no replica, and it promises nothing of a key that moves when Sync has
// been at its new node, nor of a slot that moves twice while Sync runs.
//
// # Values kept near
//
// With Config.CacheBytes, or ?cache=67108864 in the URL, maps keep what Get, Load and Peek have read and decoded, until
// the server says that it has changed (CLIENT TRACKING, of RESP3), this DB writes it, its deadline comes by the clock
// of this machine, room is needed, or a minute has passed. A read of what is kept asks nobody. When a connection ends,
// all of it is forgotten. A program sees its own writes at once, and those of others a moment after they were
// acknowledged.
//
// # Errors
//
// A write whose answer does not come, for the connection has ended or the context, is copal.ErrUnknown: the server
// may have carried it out. It is never sent again. Reads whose connection ends are sent again, four times at most.
//
// Calls share one to four connections. A call waits for the replies before it there: values of many megabytes, and
// walks that take the server long, belong on a store that was opened for them alone.
//
// Each call ends with the context of its handle (Map.WithContext), and with the time limit of Config.Timeout.
//
// Package remote is the only one for which a program links other people's code: the client github.com/redis/rueidis.
package remote
