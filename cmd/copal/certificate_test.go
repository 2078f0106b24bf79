//go:build unix

package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeCertificate writes a certificate for 127.0.0.1 with a number, and its key.
func writeCertificate(t *testing.T, dir string, number int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	text, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: text}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// numberOf returns the number of the certificate that a server shows.
func numberOf(t *testing.T, address string) int64 {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// SIGHUP reloads the certificate. If it cannot be read, the old one stays; open connections stay,
// too.
func TestServeReadsCertificatesAnew(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	s := serve(t, filepath.Join(dir, "store"), "--redis", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	open, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if n := numberOf(t, s.addr); n != 1 {
		t.Fatal(n)
	}
	writeCertificate(t, dir, 2)
	hangUp(t)
	for numberOf(t, s.addr) != 2 {
	}
	if err := os.WriteFile(cert, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangUp(t)
	writeCertificate(t, dir, 3)
	hangUp(t)
	for numberOf(t, s.addr) != 3 {
	}
	if _, err := open.Write([]byte("PING\r\nQUIT\r\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(open); err != nil || string(got) != "+PONG\r\n+OK\r\n" {
		t.Errorf("%q, %v", got, err)
	}
	if code := s.end(); code != 0 {
		t.Error(code)
	}
}

// Each user has the rights of the file, by both protocols. SIGHUP reloads the file, and
// ends the connections of users that are not in it any more.
func TestServeUsers(t *testing.T) {
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "users.toml"), filepath.Join(dir, "redis.sock")
	tokens := map[string]string{}
	lines := map[string]string{}
	for name, rights := range map[string][]string{"shop": {"--write", "orders", "--read", "prices"}, "boss": {"--write", "*"}} {
		code, out, told := command(strings.NewReader(""), append([]string{"token", name}, rights...)...)
		if code != 0 {
			t.Fatal(told)
		}
		said := strings.Fields(told)
		tokens[name], lines[name] = said[len(said)-1], out
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(lines["shop"] + lines["boss"])
	admin := filepath.Join(dir, "admin.sock")
	s := serve(t, filepath.Join(dir, "store"), "--redis", "", "--http", "127.0.0.1:0", "--unix", socket, "--users", file, "--admin", admin)
	status := func(user, method, path string) string {
		return fetch(t, http.DefaultClient, method, "http://"+s.addr+path, "1", "Authorization", "Bearer "+tokens[user])[len("HTTP/1.1 "):][:3]
	}
	for _, c := range [][4]string{
		{"boss", "PUT", "/v1/maps/secrets/a", "201"}, {"shop", "PUT", "/v1/maps/orders/a", "201"}, {"shop", "PUT", "/v1/maps/prices/a", "403"},
		{"shop", "GET", "/v1/maps/secrets/a", "403"}, {"nobody", "GET", "/v1/maps", "401"},
	} {
		if got := status(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("%v: %s", c, got)
		}
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, pair := range [][2]string{{"GET orders:a", "-NOAUTH Authentication required."}, {"AUTH shop " + tokens["shop"], "+OK"}, {"SET orders:b 1", "+OK"}, {"SET prices:b 1", "-NOPERM No permissions to access a key"}} {
		fmt.Fprintf(c, "%s\r\n", pair[0])
		if line, err := r.ReadString('\n'); strings.TrimSuffix(line, "\r\n") != pair[1] {
			t.Errorf("%s: %q, %v", pair[0], line, err)
		}
	}
	if got := ask(t, "unix", admin, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Error(got)
	}
	write(lines["boss"])
	hangUp(t)
	if line, err := r.ReadString('\n'); err != io.EOF {
		t.Error(line, err)
	}
	if got := status("shop", "PUT", "/v1/maps/orders/c") + status("boss", "PUT", "/v1/maps/orders/c"); got != "401201" {
		t.Error(got)
	}
	if code := s.end(); code != 0 {
		t.Error(code)
	}
}

func hangUp(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
