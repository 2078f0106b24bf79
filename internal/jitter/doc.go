// Package jitter runs the tests of this module with delays at locks.
//
// A schedule that a machine takes once in a thousand runs is a bug all the same. So a copy of each
// source file is made in which [Here] is called before every lock, every unlock, every atomic
// operation and every operation of a channel that is a statement by itself, and in which a
// goroutine begins with one. The tests of a package run on the copies, by go test's -overlay; the
// source is not changed, and nothing else imports this package.
//
//	COPAL_JITTER=10 go test -v -timeout 4h ./internal/jitter              # ten times each, with 1, 2 and 8 processors
//	COPAL_JITTER=10 go test -v -timeout 4h -run '/seglog$' ./internal/jitter
package jitter
