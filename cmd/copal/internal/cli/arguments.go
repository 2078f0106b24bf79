package cli

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// AnyNumber means no upper limit.
const AnyNumber = -1

// Arguments refuses a number of arguments that the command's synopsis does not allow.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		n := len(args)
		if least <= len(args) && (len(args) <= most || most == AnyNumber) {
			return nil
		}
		_, synopsis, _ := strings.Cut(strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
		if synopsis == "" {
			return UsageError(cmd.CommandPath() + " takes no arguments")
		}
		if cmd.Annotations[ImpliedAnnotation] != "" {
			n-- // the store of the shell
		}
		return UsageError("the arguments are" + synopsis + ", and there are " + strconv.Itoa(n))
	}
}

// Exclude refuses two flags together.
func Exclude(cmd *cobra.Command, one, other string) {
	cmd.MarkFlagsMutuallyExclusive(one, other) // completion offers one of them
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed(one) && cmd.Flags().Changed(other) {
			return UsageError("--" + one + " and --" + other + " exclude each other")
		}
		return check(cmd, args)
	}
}

// CompleteDir completes the first argument as a directory and no other.
func CompleteDir(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// CompleteDirs completes the first two arguments as directories.
func CompleteDirs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) < 2 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// ImpliedAnnotation is on commands whose first argument, the store, the shell gives.
const ImpliedAnnotation = "copal.implied"

// allowNegative replaces the -3 of incr DIR KEY -3, which looks like a flag, by --by=-3.
func allowNegative(args []string) []string {
	if len(args) == 0 || args[0] != "incr" {
		return args
	}
	args = append([]string{}, args...)
	for i, arg := range args {
		switch {
		case arg == "--":
			return args
		case negative.MatchString(arg) && args[i-1] != "--by":
			args[i] = "--by=" + arg
		}
	}
	return args
}

var negative = regexp.MustCompile(`^-[0-9]+$`)
