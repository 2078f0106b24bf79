// Package admin has what everyday programs never call: it judges and mends a store that nobody has
// open, and moves entries between stores as they are.
package admin
