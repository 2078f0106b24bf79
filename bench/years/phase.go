package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

// phaseVariable in the environment says that this process is a phase, and which; its settings are
// the JSON in the first argument.
const phaseVariable = "COPAL_YEARS_PHASE"

// A phase does something to the store in s.Dir and reports figures. It may call ready to be killed
// at any time from then on.
type phase func(s *settings, r *figures, ready func()) error

var phases = map[string]phase{}

// figures are the results of a phase, in order.
type figures struct{ Lines []figure }

type figure struct{ Name, Value string }

func (r *figures) add(name, format string, args ...any) {
	r.Lines = append(r.Lines, figure{name, fmt.Sprintf(format, args...)})
}

// time adds how long f took.
func (r *figures) time(name string, f func() error) error {
	start := time.Now()
	err := f()
	r.add(name, "%v", time.Since(start).Round(10*time.Microsecond))
	return err
}

const readyLine = "ready"

// runPhase runs a phase to its end, or kills it some time after it is ready, and prints its
// figures.
func runPhase(ctx context.Context, s *settings, title, name string, kill time.Duration, setup func(*exec.Cmd)) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, string(text))
	cmd.Env = append(os.Environ(), phaseVariable+"="+name)
	cmd.Stderr = os.Stderr
	if setup != nil {
		setup(cmd)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", title)
	if err := cmd.Start(); err != nil {
		return err
	}
	var r figures
	killed := false
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == readyLine {
			time.Sleep(kill)
			killed = true
			cmd.Process.Kill()
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("the phase %s printed %q", name, lines.Text())
		}
	}
	for _, l := range r.Lines {
		fmt.Printf("  %-44s %s\n", l.Name, l.Value)
	}
	if err := cmd.Wait(); err != nil && !killed {
		return fmt.Errorf("phase %s: %w", name, err)
	}
	return nil
}

func bePhase(name string) error {
	p := phases[name]
	if p == nil || len(os.Args) != 2 {
		return fmt.Errorf("there is no phase %q", name)
	}
	var s settings
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		return err
	}
	if err := joinGroup(); err != nil {
		return err
	}
	m := watchMemory()
	var r figures
	err := p(&s, &r, func() { fmt.Println(readyLine) })
	r.add("anonymous memory, most", "%s", size(m.most.Load()))
	if used, ok := groupMost(); ok {
		r.add("memory of the control group, most (file cache included)", "%s", size(used))
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(&r))
}

// memoryWatch samples the anonymous memory of this process.
type memoryWatch struct{ most atomic.Int64 }

func watchMemory() *memoryWatch {
	m := &memoryWatch{}
	go func() {
		for {
			if n := anonymousBytes(); n > m.most.Load() {
				m.most.Store(n)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return m
}

// settled returns the anonymous memory when garbage has been given back.
func settled() int64 {
	debug.FreeOSMemory()
	return anonymousBytes()
}

// collection returns the time of one garbage collection, the median of five.
func collection() time.Duration {
	var times []time.Duration
	for range 5 {
		start := time.Now()
		runtime.GC()
		times = append(times, time.Since(start))
	}
	for i := range times {
		for j := i; j > 0 && times[j] < times[j-1]; j-- {
			times[j], times[j-1] = times[j-1], times[j]
		}
	}
	return times[len(times)/2]
}

// onDisk returns the space that the files of a directory take.
func onDisk(dir string) (int64, error) {
	var total int64
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // it went away
		}
		total += allocated(info)
	}
	return total, nil
}

func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d B", n)
}

func rate(n int, took time.Duration) string {
	return fmt.Sprintf("%.0f k/s", float64(n)/took.Seconds()/1000)
}

// number reads the first number of a small file, of those that exist.
func firstNumber(paths ...string) (int64, bool) {
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		var n int64
		if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &n); err == nil {
			return n, true
		}
	}
	return 0, false
}
