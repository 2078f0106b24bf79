package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal"
)

// TestCopyKilled kills copal copy ten times, after it has noted its position, while the source is written to. The run
// after that ends with both equal, and has not begun from the beginning.
func TestCopyKilled(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	source, err := copal.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	made, err := copal.Open(to) // so that it can be watched
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	const entries = 60_000
	r := rand.New(rand.NewPCG(1, 1))
	for i := range entries {
		writeSome(t, source, i, r)
	}
	killed := 0
	for range 10 {
		if killCopy(t, from, to, 1+r.IntN(4)) {
			killed++
		}
		for range 200 {
			writeSome(t, source, r.IntN(entries), r)
		}
	}
	code, out, told := command(strings.NewReader("\n"), "copy", from, to, "--cutover", "--json")
	var report struct {
		Written int
		Resumed bool
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
		t.Fatalf("exit code %d: %q, %q, %v", code, out, told, err)
	}
	if !report.Resumed || report.Written >= entries || killed == 0 {
		t.Errorf("killed %d times, and then %+v", killed, report)
	}
	if code, out, told := command(strings.NewReader(""), "diff", from, to); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d: %.200s, %.200s", code, out, told)
	}
}

func writeSome(t *testing.T, db *copal.DB, i int, r *rand.Rand) {
	t.Helper()
	key := fmt.Appendf(nil, "key-%06d", i)
	var err error
	switch r.IntN(20) {
	case 0:
		_, err = db.Raw().Delete(key)
	case 1:
		_, err = db.Raw().Delete(key)
		if err == nil {
			err = db.Raw().Hash(key).Set(fmt.Sprint(r.IntN(3)), []byte("v"))
		}
	default:
		err = db.Raw().Set(key, fmt.Appendf(nil, "%d", r.IntN(1000)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// killCopy kills a copy that has noted its position so often, and reports whether it was still running.
func killCopy(t *testing.T, from, to string, notes int) bool {
	t.Helper()
	reader, err := copal.Open(to, copal.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	changes := reader.Watch(ctx, copal.WithKey([]byte("copal.copy:position")))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	cmd := &exec.Cmd{Path: program, Args: []string{"copal", "copy", from, to}, Env: os.Environ(), Stderr: &told}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		end()
	}()
	for _, err := range changes {
		if err != nil {
			break // it has ended before
		}
		if notes--; notes == 0 {
			cmd.Process.Kill()
			break
		}
	}
	err = <-ended
	if err != nil && cmd.ProcessState.Exited() {
		t.Fatalf("%v: %s", err, told.String())
	}
	return err != nil
}
