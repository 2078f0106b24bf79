// Package goid numbers goroutines: a goroutine's number is its own while it runs. The language has
// no such thing, and state of a goroutine should be handed on as an argument. But a function that
// has to find out that its own goroutine is inside it already has nothing else. The number is the
// address of the runtime's record of the goroutine, where that can be had, and otherwise read off a
// stack trace.
package goid
