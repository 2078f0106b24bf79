package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// phaseVariable in the environment says that this process is a phase. It has the spec as JSON.
const phaseVariable = "COPAL_BENCH_LOAD"

// A spec is the work of a phase, and its side.
type spec struct {
	Phase   string
	Side    string // set by the line
	Dir     string // the directory of the store, set by the line
	Round   int    // set by the line; the seed of random choices
	Records int    // in each collection
	Times   int    // how many reads, cycles or blobs
	Mix     mix
}

// figures are the results of a phase: seconds and bytes, by name.
type figures map[string]float64

// A phase opens the store in s.Dir, works, and closes it. It checks each value that it reads.
type phase func(s *spec, f figures) error

var phases = map[string]phase{
	"nothing": func(_ *spec, f figures) error { return f.memory() },
	"write":   writeRecords,
	"open":    readRecords,
	"reads":   readRecords,
	"cycles":  openAndClose,
	"put":     putBlobs,
	"get":     getBlobs,
	"mix":     runMix,
}

// runPhase runs a phase in a child process.
func runPhase(ctx context.Context, s *spec) (f figures, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), phaseVariable+"="+string(text))
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w: %s", s.Side, s.Phase, err, bytes.TrimSpace(said.Bytes()))
	}
	return f, json.Unmarshal(out, &f)
}

// bePhase does the work of a child.
func bePhase(text string, out io.Writer) error {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	p, f := phases[s.Phase], figures{}
	if p == nil {
		return fmt.Errorf("there is no phase %q", s.Phase)
	}
	if err := p(&s, f); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(f)
}

// memory adds the memory of the process: first as the system sees it at this moment, garbage
// included, then the heap of Go without garbage. Resident memory has pages of files, which the
// system may drop; anonymous memory has none.
func (f figures) memory() error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // only Linux has it
		return err
	}
	for line := range strings.Lines(string(text)) {
		for prefix, name := range map[string]string{"RssAnon:": "anonymous", "VmRSS:": "resident"} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
				if err != nil {
					return err
				}
				f[name] = float64(n) * 1024
			}
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f["heap"] = float64(m.HeapAlloc)
	return nil
}

// fileBytes returns the length of all files of a store.
func fileBytes(dir string) (total float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += float64(info.Size())
		}
		return err
	})
	return total, err
}
