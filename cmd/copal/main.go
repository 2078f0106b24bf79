// Command copal looks into a copal store from the shell, moves its entries, and mends it.
//
// Every subcommand that only reads opens the store read-only, so it works beside the process that
// writes. A subcommand that writes takes the store's lock, or names the process that has it. The
// package uses the public API alone: whatever the shell can do, a program can. Only bench does not, which
// measures by internal/bench.
package main

import "os"

func main() {
	beChild()
	os.Exit(newApp(os.Stdin, os.Stdout, os.Stderr).run(os.Args[1:]))
}
