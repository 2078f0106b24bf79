//go:build linux || darwin

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// descriptorsVariable limits the descriptors of a process of these tests.
const descriptorsVariable = "COPAL_TEST_DESCRIPTORS"

func limitDescriptors() {
	most, err := strconv.ParseUint(os.Getenv(descriptorsVariable), 10, 64)
	if err != nil {
		return
	}
	var l unix.Rlimit
	if err = unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err == nil {
		l.Cur, l.Max = min(l.Cur, most), min(l.Max, most)
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
	}
	if err != nil {
		panic(err)
	}
}

// TestServeOutOfDescriptors: a server with few descriptors keeps some for its store. A hundred
// connections of each protocol block no write, and those over the limit are refused. It warns once.
func TestServeOutOfDescriptors(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: program, Args: []string{"copal", "serve", filepath.Join(t.TempDir(), "store"), "--redis", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", "json", "--durability", "fsync"},
		Env: append(os.Environ(), descriptorsVariable+"=64")}
	told, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	warnings, of := 0, map[string]string{}
	lines := bufio.NewScanner(told)
	for len(of) < 4 && lines.Scan() { // three ports, and the socket of the directory
		var line struct {
			Level, Msg, Address, Protocol string
			Wanted                        int `json:"max-clients"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		switch {
		case line.Msg == "serving":
			of[line.Protocol+strings.Split(line.Address, ":")[0]] = line.Address
		case line.Level == "WARN" && line.Wanted == 10_000:
			warnings++
		default:
			t.Error(lines.Text())
		}
	}
	rest := make(chan []string, 1)
	go func() {
		var list []string
		for lines.Scan() {
			list = append(list, lines.Text())
		}
		rest <- list
	}()
	redis, web := of["redis127.0.0.1"], of["http127.0.0.1"]
	refused, served := 0, 0
	var held []net.Conn
	for i := range 100 {
		c, err := net.Dial("tcp", redis)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		fmt.Fprintf(c, "SET k%d v\r\n", i)
		switch line, err := bufio.NewReader(c).ReadString('\n'); {
		case line == "+OK\r\n":
			served++
		case line == "-ERR max number of clients reached\r\n", err != nil && line == "": // closed without a reply
			refused++
		default:
			t.Errorf("connection %d: %q, %v", i, line, err)
		}
	}
	turnedAway := func(address, path string) (turned int) {
		for range 100 {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
			if line, _ := bufio.NewReader(c).ReadString('\n'); line != "HTTP/1.1 200 OK\r\n" {
				turned++
			}
		}
		return turned
	}
	turned, ofAdmin := turnedAway(web, "/"), turnedAway(of["admin127.0.0.1"], "/livez")
	if served < 2 || refused < 80 || turned < 80 || turned > 98 || ofAdmin < 80 || ofAdmin > 98 || warnings != 1 {
		t.Errorf("%d served, %d refused, %d and %d turned away, %d warnings", served, refused, turned, ofAdmin, warnings)
	}
	for i := range 10 { // the first connection is served while the others stay
		fmt.Fprintf(held[0], "SET held%d v\r\n", i)
		if line, err := bufio.NewReader(held[0]).ReadString('\n'); line != "+OK\r\n" {
			t.Errorf("while all are connected: %q, %v", line, err)
		}
	}
	for _, c := range held {
		c.Close()
	}
	for { // the server notices some time later
		r, err := http.Post("http://"+web+"/", "", nil)
		if err == nil {
			r.Body.Close()
		}
		if err == nil && r.StatusCode != http.StatusServiceUnavailable {
			break
		}
	}
	c, err := net.DialTimeout("tcp", redis, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "DBSIZE\r\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); line != fmt.Sprintf(":%d\r\n", served+10) {
		t.Errorf("%d writes were answered, and DBSIZE is %q, %v", served+10, line, err)
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if list := <-rest; slices.ContainsFunc(list, func(line string) bool { return strings.Contains(line, "ERROR") }) {
		t.Errorf("it tells %q", list)
	}
}
