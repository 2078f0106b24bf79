// Command copal looks into a copal store from the shell, moves its entries, and repairs it.
//
// Every subcommand that only reads opens the store read-only, so it works beside the process that
// writes. A subcommand that writes takes the store's lock, or names the process that has it. The
// package uses the public API alone, so a program can do the same as the shell. The exception is
// bench, which measures by internal/bench.
package main

import (
	"os"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

func main() {
	beChild()
	os.Exit(carryOut(cli.NewApp(os.Stdin, os.Stdout, os.Stderr), os.Args[1:]))
}

// carryOut carries out a command line and returns the exit code.
func carryOut(a *cli.App, args []string) int { return a.CarryOut(newRoot(a), args) }
