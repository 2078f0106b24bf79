// Package cli is the ground under the subcommands of copal: the run of a command line, its arguments, keys,
// moments and completion, the stores that it opens, its exit codes, and how it prints.
package cli
