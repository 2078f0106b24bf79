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

// children are the functions of the processes that tests start, by the variable with their orders.
var children = map[string]func(order string){childVariable: writeUntilKilled}

func TestMain(m *testing.M) {
	limitDescriptors()
	beChild()
	for variable, do := range children {
		if order := os.Getenv(variable); order != "" {
			do(order)
		}
	}
	testscript.Main(m, map[string]func(){"copal": main})
}

// The scripts run the command as a process of its own. The commands of storeCommands make, hold
// open and damage its stores, in the process of the test.
func TestScripts(t *testing.T) {
	commands := storeCommands()
	commands["code"], commands["until"] = code, until
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
	if got := exitCodeOf(ts, args[1:]); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// until N COMMAND… runs a command again and again, until its exit code is N.
func until(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	for exitCodeOf(ts, args[1:]) != want {
	}
}

func exitCodeOf(ts *testscript.TestScript, command []string) int {
	err := ts.Exec(command[0], command[1:]...)
	if err == nil {
		return 0
	}
	exit, ok := err.(*exec.ExitError)
	if !ok {
		ts.Fatalf("%v", err)
	}
	return exit.ExitCode()
}
