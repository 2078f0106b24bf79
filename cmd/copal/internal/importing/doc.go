// Package importing reads entries of a file or a server into a store, and verifies them.
package importing
