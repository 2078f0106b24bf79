// Package cli is the common ground of the subcommands of copal: the run of a command line, its
// arguments, keys, moments and completion, the stores that it opens, its exit codes, and its
// output.
package cli
