// Package wire is the conventions between a server and the programs that open its store over the
// network.
package wire
