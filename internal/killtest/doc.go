// Package killtest kills processes that write to a store, and checks what they leave.
//
// A child process, which is the test binary run again, opens a store and writes with
// several goroutines. Each of them owns its keys, so the order of the writes to a
// key is known; it announces every operation on a pipe before it begins and
// acknowledges it when it is done. The parent kills the child in the middle with
// SIGKILL, reads the pipe to its end, opens the store and compares every entry by
// content with what it was told:
//
//   - the entry is as the last acknowledged operation on its key left it, or
//   - as the one announced and not acknowledged left it, of which there is at most one
//     for each writer;
//   - or, where asynchronous writes came last and no sync or close that began after them, as one of
//     these or what was before them left it;
//   - and whatever was found then is what holds from then on.
//
// The children append through the mapped ring and by pwrite in turns, through rings and to segments so
// small that kills meet their
// ends, and sync at intervals from a millisecond to a second.
//
// Anything older is lost, anything else is wrong. The next child goes on with the
// same store, so that recoveries pile up on one another.
//
// The pipe belongs to the kernel: what a child has written to it before its death the
// parent reads after it. So an acknowledgement that the parent has not seen was not given.
//
// Other children count, each goroutine to the same counters, by Map.Update and in transactions; count_test.go compares the
// counters with what each goroutine has announced and acknowledged.
//
// The same code checks children with planted bugs, each of which it must find.
//
//	go test ./internal/killtest                   # 120 kills
//	COPAL_KILLS=1000 go test -v ./internal/killtest
//	COPAL_LONG=1 go test -v -timeout 1h ./internal/killtest     # 10,000 kills
//	COPAL_SEED=7 …                                # the same plans; the moments of the kills vary
//	go test -artifacts ./internal/killtest        # keeps the store of a failure
package killtest
