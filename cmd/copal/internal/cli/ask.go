package cli

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Consent are the flags of a command that destroys something.
type Consent struct {
	DryRun bool // only show the effect
	Yes    bool // do not ask
}

// Flags gives a command --dry-run and --yes.
func (c *Consent) Flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.DryRun, "dry-run", false, "only tell what would be done")
	cmd.Flags().BoolVarP(&c.Yes, "yes", "y", false, "do not ask")
	Exclude(cmd, "dry-run", "yes")
}

// ErrDeclined is the answer no.
var ErrDeclined = errors.New("nothing was done")

// Confirm returns nil if the user has given --yes or answers the question with y or yes. Without a
// terminal it returns a UsageError that asks for --yes.
func (a *App) Confirm(c Consent, question string) error {
	if c.Yes {
		return nil
	}
	if a.Host != nil {
		return a.Host.Confirm(question)
	}
	if !IsTerminal(a.Stdin) || !IsTerminal(a.Stderr) {
		return UsageError(question + " There is nobody to ask: say --yes, or --dry-run to see what would be done")
	}
	fmt.Fprint(a.Stderr, question+" [y/N] ")
	answer, _ := bufio.NewReader(a.Input()).ReadString('\n') // only a yes is a yes
	return Affirmed(answer)
}

// Affirmed returns ErrDeclined unless an answer is yes.
func Affirmed(answer string) error {
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return ErrDeclined
}
