// Package killtest kills processes that write to a store, and checks the stores that they leave.
//
// A child process, which is the test binary run again, opens a store and writes with several
// goroutines. Each of them owns its keys, so the order of the writes to a key is known; it
// announces every operation on a pipe before it begins and acknowledges it when it is done. The
// parent kills the child in the middle with SIGKILL, reads the pipe to its end, opens the store and
// compares every entry by content with the announcements.
//
// The pipe belongs to the kernel: the parent reads the child's writes to it also after the child's
// death. So an acknowledgement that the parent has not seen was not given.
//
// # Writes
//
// A store has one mix of writers (mix_test.go):
//
//   - single values in maps of all codecs and in raw keys, synchronous, synced and asynchronous
//     (op_test.go, ledger_test.go);
//   - batches, few and many, small and large, with deletions and deadlines; large values, and
//     streams (rawshape_test.go);
//   - transactions over several maps, raw keys and a hash (txshape_test.go);
//   - hashes, lists, sets and sorted sets, and changes of whole ones (collectionshape_test.go);
//   - all of them at once, and with compaction all the time.
//
// The children append through the mapped ring and by pwrite in turns, through rings and to segments
// so small that kills meet their ends, and sync at intervals from a millisecond to a second. Some
// close the store now and then and open it again.
//
// # Kills
//
// While the process starts; while it opens the store, and recovers from the last kill; within an
// operation; while it closes the store; while it compacts; and at an acknowledgement. Large steps
// are repeated, so that a kill within a copy is likely. Every such kill is in internal/engine's
// crash models, too, which need no luck.
//
// # Checks
//
// The store opens, for reading alone and for writing; Check calls it sound; it takes a write,
// closes and opens again; and
//
//   - an entry is as the last acknowledged operation on its key left it, or as the one announced
//     and not acknowledged left it, of which there is at most one for each writer;
//   - where asynchronous writes came last, and no sync or close that began after them, it is as
//     one of these, or the last one before them, left it;
//   - each step of a shape has happened as a whole or not at all: the entries of a writer are as
//     its acknowledged steps have made them, or these and the one in flight;
//   - the state found then holds from then on: the next child goes on with the same store, so that
//     recoveries pile up on one another.
//
// Anything older is lost, anything else is wrong.
//
// Other children count, each goroutine to the same counters, by Map.Update and in transactions;
// count_test.go compares the counters with the announcements and acknowledgements of each
// goroutine.
//
// Others follow a store beside the process that writes, and keep a copy of it by its changes;
// consumers_test.go kills both, and compares the copy with the store in the end.
//
// The same code checks children with planted bugs, each of which it must find.
//
//	go test ./internal/killtest                   # 60 kills
//	COPAL_KILLS=1000 go test -v ./internal/killtest
//	COPAL_LONG=1 go test -v -timeout 1h ./internal/killtest     # 10,000 kills
//	COPAL_SHAPES=batch,tx …                       # of these mixes, and those whose names begin so
//	COPAL_SEED=7 …                                # the same plans; the moments of the kills vary
//	go test -artifacts ./internal/killtest        # keeps the store of a failure
//
// 2,000 kills at batches, transactions and collections, ten mixes of them:
//
//	COPAL_SHAPES=batch,tx,hash,list,set,whole COPAL_KILLS=2000 go test -v -timeout 1h -run 'TestKill$' ./internal/killtest
package killtest
