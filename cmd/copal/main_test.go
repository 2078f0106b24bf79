package main

import (
	"flag"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

func TestMain(m *testing.M) {
	if order := os.Getenv(childVariable); order != "" {
		writeUntilKilled(order)
	}
	testscript.Main(m, map[string]func(){"copal": main})
}

// The scripts run the command as a process of its own. What it reads is made, held
// open and damaged by the commands of storeCommands, in the process of the test.
func TestScripts(t *testing.T) {
	commands := storeCommands()
	commands["code"] = code
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               holdStores,
		Cmds:                commands,
	})
}

// code N COMMAND… runs a command, whose exit code must be N.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
