// Package hashes has the commands of hashes.
package hashes
