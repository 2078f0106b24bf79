package redisserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// Process is a redis-server that runs.
type Process struct {
	Address string
	cmd     *exec.Cmd
}

// Run starts the program in a directory, with settings after those that it needs, and waits until
// it is ready.
func Run(program, dir string, settings ...string) (*Process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir}, settings...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{"127.0.0.1:" + port, cmd}
	said, last := bufio.NewScanner(out), ""
	for said.Scan() {
		if last = said.Text(); strings.Contains(last, "Ready to accept") {
			go io.Copy(io.Discard, out)
			return p, nil
		}
	}
	p.Kill()
	return nil, fmt.Errorf("redis-server does not start; the last that it says is %q", last)
}

// freePort returns a free port of this machine.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// Kill ends the process.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// Start runs redis-server until the test ends. dir is where it saves. The test is skipped where it
// is not installed.
func Start(t testing.TB, settings ...string) (dir, address string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed, so nothing is compared with it")
	}
	dir = t.TempDir()
	p, err := Run(program, dir, settings...)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(p.Kill)
	return dir, p.Address
}
