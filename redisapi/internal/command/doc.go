// Package command has the calls of Redis commands: the rows that describe commands, the call that
// a handler works with, its arguments and errors, and the accounting of its memory and its steps.
//
// A new command is a row and a function in a file of its family. From the row follow dispatch,
// the reply of COMMAND, and the manual. Commands about connections, messages, sessions and the
// server are methods of the client in package redisapi instead. The function reads Call.Args, uses
// Call.Store, and writes one reply, or returns an error before it has written anything. Its loops
// call GoOn, and it reports the memory for its work by Uses.
package command
