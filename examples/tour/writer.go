package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// writerVariable is set for the process that will be killed, and holds its orders.
const writerVariable = "COPAL_TOUR_WRITER"

// orders are the parent's orders for the writing process.
type orders struct {
	Dir  string
	Done [writerCount]int // steps of the plan that were taken before
}

// runWriter writes for ever. It ends only by being killed, or with a failure.
func runWriter(text string) int {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fail(err)
	}
	lib, err := openLibrary(o.Dir)
	if err != nil {
		return fail(err)
	}
	files := sources{} // the parent's, out of the store
	for name, f := range lib.files.All() {
		files[name] = f
	}
	paths := files.paths()
	failed := make(chan error)
	for w := range writerCount {
		go func() { failed <- follow(lib, files, paths, w, o.Done[w]) }()
	}
	return fail(<-failed)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "writer:", err)
	return 1
}

// follow takes one step of the plan after the other, and acknowledges each on the
// pipe to the parent when the store has acknowledged it.
func follow(lib *library, files sources, paths []string, writer, step int) error {
	for ; ; step++ {
		a := planned(files, paths, writer, step)
		var err error
		switch {
		case a.remove:
			_, err = lib.drafts.Delete(a.key)
		case a.fsync:
			err = lib.drafts.SetFSync(a.key, a.draft)
		default:
			err = lib.drafts.Set(a.key, a.draft)
		}
		if err == nil {
			_, err = fmt.Fprintf(os.Stdout, "%d %d\n", writer, step)
		}
		if err != nil {
			return fmt.Errorf("step %d of writer %d: %w", step, writer, err)
		}
	}
}
