// Package admin has functions for tools and servers: checking, repairing and restoring a directory,
// reading and writing entries in their stored form, comparing snapshots, and undoing changes.
package admin
