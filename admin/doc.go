// Package admin has what everyday programs never call: it judges and mends a store that nobody has
// open, moves entries between stores as they are, and compares states of stores and goes back to one.
package admin
