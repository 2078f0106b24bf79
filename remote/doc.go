// Package remote opens a store on another machine: a server of copal, of Redis or of Valkey, or a
// cluster of these. Only the line that opens the store changes in the program.
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
// # Features of servers
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
// Without a feature, the verb that needs it returns errors.ErrUnsupported, as does OpenMap for an
// option. Backup, compaction, SetInMemory, Raw.Create and Raw.Open need the files of the store:
// they are errors with each server. FSync needs a server that keeps a log on its disk (appendonly);
// otherwise the error is copal.ErrDurability.
//
// All, Keys and Len on Redis take 16 bytes of memory for each key while they run. They may miss an
// entry that a cluster moves to another node at that moment. If the server is restarted meanwhile
// they start again, and yield each entry once all the same; so do walks over a hash or a set, also
// if that moves. A user that may not run INFO does not notice a restart. Sorted sets and lists are
// read in one piece, so they should fit into memory.
//
// Sync of a cluster returns when each write that was acknowledged before is on a disk of the master
// that had its key when Sync came there, even if its slot is moving from one node to another. It
// asks each master for the others, and fails if one does not answer. It does not wait for replicas.
// It makes no promise about a key that moves after Sync was at its new node, nor about a slot that
// moves twice while Sync runs.
//
// # Cached values
//
// With Config.CacheBytes, or ?cache=67108864 in the URL, maps cache entries that Get, Load and Peek
// have read and decoded, until the server reports a change (CLIENT TRACKING, of RESP3), this DB
// writes the entry, its deadline comes, room is needed, or a minute
// has passed. Without it there is no cache. A read of a cached entry sends nothing. When a
// connection ends, the cache is emptied. This DB sees its own writes at once, and those of others a
// moment after they were acknowledged, at the latest after a minute.
//
// # Deadlines
//
// An entry expires by the clock of its server, and a time to live begins when the server carries out
// the write. The clock of this machine plays no part: TTL, and the check of a deadline that must be
// in the future, use the server's time, which is asked for once a minute. In a cluster that is the
// time of one node.
//
// # Refusals
//
// A refused call was not carried out. Beside those of package copal, its error is one of these:
//
//	copal.ErrUnavailable    the server loads its data, has lost its master, or the cluster is down
//	copal.ErrReadOnly       the server is a replica, or cannot save its data
//	copal.ErrNoSpace        the server has reached its maxmemory
//	copal.ErrDurability     the server has fewer replicas than min-replicas-to-write
//	fs.ErrPermission        the user, the password, or a right that the user lacks; also of Open
//
// # Errors
//
// A write without an answer, because the connection or the context has ended, is copal.ErrUnknown:
// the server may have carried it out. It is never sent again. Reads whose connection ends are sent
// again, four times at most.
//
// Get, Has, Len and the walks have no error result: their errors go to the transaction, to the function
// of copal.OnError, or to the error handler of the store.
//
// Calls share one to four connections. A call waits for earlier replies on its connection: open a
// second store for values of many megabytes, and for walks that take the server long.
//
// Each command ends with the context of its handle (Map.WithContext), and with the time limit of
// Config.Timeout, also while a connection is made. The error of the limit is os.ErrDeadlineExceeded.
// Open and Close end within the limit, too. A walk or an update is several commands.
//
// # In production
//
// Config.Trace is called around each exchange with a server, for metrics and spans. Ping returns
// an error unless each master answers. Config.Master names a master that sentinels watch. MaxConnections
// bounds the connections, and Timeout and DialTimeout the time. All reads are of masters, since an
// update must see the entry that it changes.
//
// Of all packages, only remote links a third-party module: the client github.com/redis/rueidis.
package remote
