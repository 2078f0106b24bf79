// Package watch tests the public API: watches, and stores that follow another process.
package watch
