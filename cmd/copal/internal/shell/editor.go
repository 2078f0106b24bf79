package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"

	"github.com/peterh/liner"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/files"
)

// editor reads the lines of an interactive shell from the terminal, with history and completion.
type editor struct {
	state      *liner.State
	interrupts chan os.Signal // Ctrl-C while a command runs

	mu     sync.Mutex // guards asking
	asking bool       // the terminal is in the editor's mode
}

// newEditor takes the terminal until close.
func newEditor() *editor {
	e := &editor{state: liner.NewLiner(), interrupts: make(chan os.Signal, 1)}
	e.state.SetCtrlCAborts(true)
	e.state.SetTabCompletionStyle(liner.TabPrints)
	if f, err := os.Open(historyFile()); err == nil {
		e.state.ReadHistory(f)
		f.Close()
	}
	signal.Notify(e.interrupts, os.Interrupt)
	return e
}

// close gives the terminal back, and keeps the history. A history that cannot be kept is no reason
// to fail.
func (e *editor) close() {
	signal.Stop(e.interrupts)
	e.state.Close()
	var history bytes.Buffer
	if _, err := e.state.WriteHistory(&history); err != nil {
		return
	}
	file := historyFile()
	if file != "" && os.MkdirAll(cli.ParentOf(file), 0o700) == nil {
		os.WriteFile(file, history.Bytes(), 0o600) // values may be secret
	}
}

// historyFile returns COPAL_HISTORY, or a file among the user's settings; "" for none.
func historyFile() string {
	if file, ok := os.LookupEnv("COPAL_HISTORY"); ok {
		return file
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "copal", "history")
}

// remember puts a line into the history, unless it begins with a space.
func (e *editor) remember(line string) {
	if line != "" && line[0] != ' ' {
		e.state.AppendHistory(strings.TrimRight(line, " "))
	}
}

// ask lets the user type a line.
func (e *editor) ask(prompt string) (string, error) {
	e.set(true)
	defer e.set(false)
	return e.state.Prompt(prompt)
}

func (e *editor) set(asking bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asking = asking
}

// giveUp ends the process if it waits for the user, whose answer may never come after a signal. It
// restores the terminal.
func (e *editor) giveUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asking {
		e.close()
		os.Exit(cli.ExitError)
	}
}

// prompt names the store.
func (s *shell) prompt() string {
	if cli.IsServer(s.dir) {
		return cli.Redacted(s.dir) + "> "
	}
	if whole, err := files.Path(s.dir); err == nil {
		return filepath.Base(whole) + "> "
	}
	return s.dir + "> "
}

// converse runs the lines that a person types until there are no more.
func (s *shell) converse() error {
	s.editor = newEditor()
	defer s.editor.close()
	defer context.AfterFunc(s.app.Ctx, s.editor.giveUp)()
	s.editor.state.SetWordCompleter(s.complete)
	prompt := s.prompt()
	for s.app.Ctx.Err() == nil {
		line, err := s.editor.ask(prompt)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, liner.ErrPromptAborted):
			continue
		case err != nil:
			return err
		}
		s.editor.remember(line)
		words, err := cli.SplitWords(line)
		if err != nil {
			s.app.Tell(err)
			continue
		}
		if leaves(words) {
			return nil
		}
		s.interruptible(func(ctx context.Context) { s.run(ctx, words) })
	}
	return s.app.Ctx.Err()
}

// interruptible runs f with a context that Ctrl-C ends.
func (s *shell) interruptible(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(s.app.Ctx)
	defer cancel()
	select {
	case <-s.editor.interrupts: // of the command before
	default:
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-s.editor.interrupts:
			cancel()
		case <-done:
		}
	}()
	f(ctx)
}

// complete completes the word before the cursor, as liner.WordCompleter says.
func (s *shell) complete(line string, cursor int) (head string, list []string, tail string) {
	runes := []rune(line)
	before, tail := string(runes[:cursor]), string(runes[cursor:])
	words, word, ok := lastWord(before)
	head = before[:len(before)-len(word)]
	if !ok {
		return before, nil, tail
	}
	list = s.completions(words, word)
	if len(list) == 1 && !strings.HasSuffix(list[0], ":") {
		list[0] += " "
	}
	return head, list, tail
}

// lastWord divides a line that is being typed into the words that are complete, and the one that is
// not yet. It is not ok if that is quoted.
func lastWord(line string) (words []string, word string, ok bool) {
	start := strings.LastIndexAny(line, " \t") + 1
	words, err := cli.SplitWords(line[:start])
	word = line[start:]
	return words, word, err == nil && !strings.HasPrefix(word, `"`) && !strings.HasPrefix(word, "'")
}

// completions returns the words that can follow words and begin with word.
func (s *shell) completions(words []string, word string) (list []string) {
	sub := cli.NewApp(nil, io.Discard, io.Discard)
	sub.Host = s
	root := s.root(sub)
	if len(words) == 0 {
		for _, cmd := range root.Commands() {
			list = append(list, cmd.Name())
		}
		return beginning(append(list, "exit"), word)
	}
	cmd, _, err := root.Find(words[:1])
	if err != nil || cmd == root {
		return nil
	}
	if strings.HasPrefix(word, "-") {
		return beginning(cli.FlagNames(cmd), word)
	}
	if cmd.ValidArgsFunction == nil {
		return nil
	}
	args := []string{}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") {
			args = append(args, w)
		}
	}
	list, _ = cmd.ValidArgsFunction(cmd, args, word)
	return beginning(list, word)
}

// beginning returns the words that begin with start, without their descriptions after a tab.
func beginning(words []string, start string) (list []string) {
	for _, w := range words {
		w, _, _ = strings.Cut(w, "\t")
		if strings.HasPrefix(w, start) || strings.HasPrefix(w, `"`) {
			list = append(list, w)
		}
	}
	return list
}
