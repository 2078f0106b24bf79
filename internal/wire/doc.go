// Package wire is what a server and the programs that open its store over the network agree on.
package wire
