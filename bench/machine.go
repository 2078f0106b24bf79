package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// machine is what the figures were taken on.
type machine struct {
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

func describeMachine(dir string) machine {
	m := machine{
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
		for _, name := range []string{"bbolt", "badger/v4", "pebble/v2", "buntdb", "xsync/v4"} {
			if strings.HasSuffix(d.Path, "/"+name) {
				m.Rivals[d.Path] = d.Version
			}
		}
	}
	return m
}
