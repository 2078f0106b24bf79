//go:build unix

package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// The second waits, and says so, until the first is done.
func TestLockIsExclusive(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	unlock, err := lock(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	second := make(chan error)
	go func() {
		unlock, err := lock(write)
		write.Close() // ends the wait below if there was nothing to say
		if err == nil {
			err = unlock()
		}
		second <- err
	}()
	if said, _ := bufio.NewReader(read).ReadString('\n'); !strings.Contains(said, "waiting") {
		t.Errorf("the second says %q", said)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}
