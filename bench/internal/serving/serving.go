package serving

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Build builds the command of copal into a directory.
func Build(dir string) (binary string, err error) {
	binary = filepath.Join(dir, "copal")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/copal")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
}

// Server is a process that speaks the protocol.
type Server struct {
	*exec.Cmd
	Dir, Port string
}

// Copal returns the command copal serve with a durability.
func Copal(binary, durability string) func(dir, port string) *exec.Cmd {
	return func(dir, port string) *exec.Cmd {
		return exec.Command(binary, "serve", dir, "--redis", "127.0.0.1:"+port, "--durability", durability)
	}
}

// Redis returns the command redis-server with an append-only file and a setting of appendfsync.
func Redis(sync string) func(dir, port string) *exec.Cmd {
	return func(dir, port string) *exec.Cmd {
		return exec.Command("redis-server", "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", sync)
	}
}

// Start runs a command on a fresh directory and a free port, and waits until it listens.
func Start(dir string, command func(dir, port string) *exec.Cmd) (*Server, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	s := &Server{command(dir, port), dir, port}
	s.Stderr = os.Stderr
	if filepath.Base(s.Path) == "copal" {
		s.Stderr = nil
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			return s, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.Join(fmt.Errorf("%s does not listen", s.Path), s.Stop())
}

// Stop ends the process, and removes its files.
func (s *Server) Stop() error {
	s.Process.Signal(os.Interrupt)
	s.Wait()
	return os.RemoveAll(s.Dir)
}

// ProcessorTime returns the processor time of the process, from Linux.
func (s *Server) ProcessorTime() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	words := strings.Fields(rest)
	ticks := 0
	for _, word := range words[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(word)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
