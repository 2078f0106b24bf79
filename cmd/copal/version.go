package main

import (
	"bufio"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/internal/record"
)

const versionHelp = `Print the version of this command, of the file format it writes, and of Go.

A command reads stores of its own format version and of every earlier one.`

func newVersion(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print versions",
		Long:              versionHelp,
		Example:           "  copal version\n  copal version --json",
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.runs(func(_ []string, out *bufio.Writer) error {
			if asJSON {
				return writeJSON(out, readVersion())
			}
			_, err := fmt.Fprintln(out, readVersion())
			return err
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the versions as one JSON object")
	return cmd
}

// versionInfo says what this binary was built from.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from files that differ from the commit's
	Format   int    `json:"format"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func readVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Format: record.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v versionInfo) String() string {
	s := "copal " + v.Version
	if v.Commit != "" {
		s += " commit " + v.Commit
	}
	if v.Modified {
		s += " modified"
	}
	return fmt.Sprintf("%s, format %d, %s %s/%s", s, v.Format, v.Go, v.OS, v.Arch)
}
