// Package streams has the commands of streams and their consumer groups.
package streams
