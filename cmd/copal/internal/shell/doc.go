// Package shell runs subcommands in an open store, line by line, from a terminal or a script.
package shell
