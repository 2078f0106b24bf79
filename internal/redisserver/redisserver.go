// Package redisserver starts redis-server in tests, which compare this project with it.
package redisserver

import (
	"bufio"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// Start starts a redis-server until the test ends, with settings behind those that it needs. dir is where it saves. The
// test is skipped where it is not installed.
func Start(t testing.TB, settings ...string) (dir, address string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed, so nothing is compared with it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	dir = t.TempDir()
	cmd := exec.Command(program, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir}, settings...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	said := bufio.NewScanner(out)
	for said.Scan() {
		if strings.Contains(said.Text(), "Ready to accept") {
			go io.Copy(io.Discard, out)
			return dir, "127.0.0.1:" + port
		}
	}
	t.Skip("redis-server does not start")
	return "", ""
}
