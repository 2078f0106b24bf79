package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// docs/command.md has a section for each command, which names each of its flags.
func TestManualIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n### ")[1:] {
		name, body, _ := strings.Cut(s, "\n")
		body, _, _ = strings.Cut(body, "\n## ")
		sections[name] = body
	}
	commands := newRoot(cli.NewApp(nil, io.Discard, io.Discard)).Commands()
	if len(commands) < 20 {
		t.Fatalf("there are only %d commands", len(commands))
	}
	for _, cmd := range commands {
		if cmd.Name() != "help" {
			checkSection(t, cmd, sections[cmd.Name()])
		}
	}
}

func checkSection(t *testing.T, cmd *cobra.Command, section string) {
	if !strings.Contains(section, "`copal "+cmd.Name()) {
		t.Errorf("there is no section for %s, or it does not say how it is called", cmd.Name())
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !strings.Contains(section, "`--"+f.Name) {
			t.Errorf("the section of %s does not name --%s", cmd.Name(), f.Name)
		}
	})
}
