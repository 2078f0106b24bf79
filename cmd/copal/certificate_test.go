//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
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

// numberOf is the number of the certificate that a server shows.
func numberOf(t *testing.T, address string) int64 {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// At SIGHUP the certificate is read anew; one that cannot be read changes nothing, and open connections stay.
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
	hangUp := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	writeCertificate(t, dir, 2)
	hangUp()
	for numberOf(t, s.addr) != 2 {
	}
	if err := os.WriteFile(cert, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangUp()
	writeCertificate(t, dir, 3)
	hangUp()
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
