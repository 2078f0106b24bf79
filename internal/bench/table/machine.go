package table

import (
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// Machine is the machine on which the figures were taken.
type Machine struct {
	OS         string            `json:"os"`
	Arch       string            `json:"arch"`
	CPUs       int               `json:"cpus"`
	Go         string            `json:"go"`
	Commit     string            `json:"commit,omitempty"`
	Modified   bool              `json:"modified,omitempty"` // the commit is not all that was built
	Date       time.Time         `json:"date"`
	FileSystem string            `json:"fileSystem,omitempty"`
	Rivals     map[string]string `json:"rivals,omitempty"` // versions, by module
}

// describeMachine says which versions of modules the program has.
func describeMachine(dir string, modules []string) Machine {
	m := Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		Date: time.Now().UTC().Truncate(time.Second), FileSystem: fileSystem(dir), Rivals: map[string]string{},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return m
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			m.Commit = s.Value
		case "vcs.modified":
			m.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if slices.Contains(modules, d.Path) {
			m.Rivals[d.Path] = d.Version
		}
	}
	return m
}
