// Package admin has what everyday programs never call: judging and mending a store that nobody has
// open, and moving entries between stores as they are.
package admin
