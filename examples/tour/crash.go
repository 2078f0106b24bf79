package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"
)

// crash lets another process write, kills it while it does, and looks for every acknowledged write.
func (t *tour) crash(ctx context.Context, files sources) error {
	t.title("4  kill -9, while writing")
	t.say("Another process writes with %d goroutines: Set, SetFSync and Delete. It tells us of", writerCount)
	t.say("each write when the store has acknowledged it, and is killed without warning.")
	t.say("Then every entry is compared with what must be there.")
	t.say("")
	want := newExpected(files)
	total, entries := 0, 0
	bar := t.bar("kills", t.kills)
	for n := range t.kills {
		before, start := want.done, time.Now()
		if err := t.killWriter(ctx, want, 2000+rand.IntN(4000)); err != nil {
			return err
		}
		acknowledged := 0
		for w := range writerCount {
			acknowledged += want.done[w] - before[w]
		}
		wrote := time.Since(start)
		start = time.Now()
		lib, err := openLibrary(t.dir)
		if err != nil {
			return err
		}
		opened := time.Since(start)
		inFlight := want.settle(lib)
		checked := lib.drafts.Len() + lib.files.Len() + lib.packages.Len()
		if err = want.verify(lib); err == nil {
			err = compare(lib, files)
		}
		if closed := lib.db.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("after kill %d: %w", n+1, err)
		}
		bar.clear()
		t.row(fmt.Sprintf("kill %d", n+1), "%s acknowledged in %v; open %v; %s compared: 0 lost, 0 wrong; %d of %d in flight are there",
			number(acknowledged), wrote.Round(time.Millisecond), opened.Round(time.Millisecond), number(checked), inFlight, writerCount)
		bar.step()
		total, entries = total+acknowledged, entries+checked
	}
	bar.end()
	t.row("in all", "%d kills, %s acknowledged writes, %s entries compared: 0 lost, 0 wrong", t.kills, number(total), number(entries))
	return nil
}

// killWriter starts a writer, kills it after so many acknowledgements, and notes how far it came.
// The pipe is read to the end after the writer's death.
func (t *tour) killWriter(ctx context.Context, want *expected, acknowledgements int) error {
	text, err := json.Marshal(orders{Dir: t.dir, Done: want.done})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self) // killed, too, when the tour is stopped
	cmd.Env = append(os.Environ(), writerVariable+"="+string(text))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(pipe)
	for n := 0; ; n++ {
		if n == acknowledgements {
			cmd.Process.Kill()
		}
		var writer, step int
		if _, err := fmt.Fscanf(lines, "%d %d\n", &writer, &step); err == io.EOF {
			cmd.Wait() // its error is that it was killed
			if n < acknowledgements {
				return fmt.Errorf("the writer ended by itself: %s", complaint.Bytes())
			}
			return ctx.Err()
		} else if err != nil {
			cmd.Process.Kill()
			cmd.Wait()
			return fmt.Errorf("reading from the writer: %w", err)
		}
		want.advance(writer, step+1)
	}
}
