// Command copal looks into a copal store from the shell.
//
// Every command that only reads opens the store read-only, so it works beside the
// process that writes. The package uses the public API alone: what the shell can
// do, a program can.
package main

import (
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
