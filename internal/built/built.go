package built

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/copaldb/copal/internal/record"
)

// Info is the origin of a program's build.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from files that differ from the commit's
	Format   int    `json:"format"`             // of the files that it writes
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

const module = "github.com/copaldb/copal"

// Read returns the Info of this program. The commit is known of a program of this module.
func Read() Info {
	v := Info{Version: "(devel)", Format: record.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Path != module {
		for _, m := range info.Deps {
			if m.Path == module {
				v.Version = m.Version
			}
		}
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

func (v Info) String() string {
	s := "copal " + v.Version
	if v.Commit != "" {
		s += " commit " + v.Commit
	}
	if v.Modified {
		s += " modified"
	}
	return fmt.Sprintf("%s, format %d, %s %s/%s", s, v.Format, v.Go, v.OS, v.Arch)
}
