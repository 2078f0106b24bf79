package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// consent are the flags of a command that destroys something.
type consent struct {
	dryRun bool // only tell what would be done
	yes    bool // do not ask
}

func (c *consent) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only tell what would be done")
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	exclude(cmd, "dry-run", "yes")
}

// errDeclined is the answer no.
var errDeclined = errors.New("nothing was done")

// confirm returns nil if the user has said --yes or answers the question with y or yes. Where
// nobody can answer, the command line lacks --yes.
func (a *app) confirm(c consent, question string) error {
	if c.yes {
		return nil
	}
	if a.host != nil {
		return a.host.confirm(question)
	}
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return usageError{question + " There is nobody to ask: say --yes, or --dry-run to see what would be done"}
	}
	fmt.Fprint(a.stderr, question+" [y/N] ")
	answer, _ := bufio.NewReader(a.input()).ReadString('\n') // what is no yes is a no
	return affirmed(answer)
}

func affirmed(answer string) error {
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}
