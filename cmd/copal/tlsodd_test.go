//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/cmd/copal/internal/tlsfiles"
)

// issuer is a certificate with its key, and those between it and its root.
type issuer struct {
	*x509.Certificate
	key     *ecdsa.PrivateKey
	between [][]byte
}

// issue returns a certificate by an issuer, or by itself for nil, as change makes it from one that
// is valid.
func issue(t *testing.T, by *issuer, change func(c *x509.Certificate)) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "of a test"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(of)
	}
	made := &issuer{key: key}
	parent, signer := of, key
	if by != nil {
		parent, signer, made.between = by.Certificate, by.key, slices.Clone(by.between)
		if by.IsCA {
			made.between = append([][]byte{by.Raw}, by.between...)
		}
	}
	text, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, signer)
	if err == nil {
		made.Certificate, err = x509.ParseCertificate(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func authority(c *x509.Certificate) {
	c.IsCA, c.KeyUsage, c.ExtKeyUsage, c.Subject.CommonName = true, x509.KeyUsageCertSign, nil, "a root of a test"
}

// shown returns the certificate as a client shows it, with those between it and its root.
func (i *issuer) shown() *tls.Certificate {
	return &tls.Certificate{Certificate: append([][]byte{i.Raw}, i.between...), PrivateKey: i.key}
}

// writeRoots writes the file of --tls-client-ca.
func writeRoots(t *testing.T, file string, roots ...*issuer) {
	t.Helper()
	var text []byte
	for _, root := range roots {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})...)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// secureDoors are the ports that may have TLS: their flags, a request, and the answer of a client
// that is let in.
var secureDoors = map[string]struct {
	flags           []string
	request, answer string
}{
	"redis": {[]string{"--redis", "127.0.0.1:0"}, "PING\r\n", "+PONG"},
	"http":  {[]string{"--redis", "", "--http", "127.0.0.1:0"}, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 OK"},
}

// asksByTLS returns the first line of the answer to a request, "" if there is none, and the state
// of the connection.
func asksByTLS(address, request string, config *tls.Config) (line string, is tls.ConnectionState) {
	c, err := tls.Dial("tcp", address, config)
	if err != nil {
		return "", is
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err == nil {
		line, _ = bufio.NewReader(c).ReadString('\n') // of TLS 1.3 it says that the certificate was refused
	}
	return strings.TrimSuffix(line, "\r\n"), c.ConnectionState()
}

// Each client has to show a valid certificate by one of the authorities, at both ports and in both
// versions of TLS. The authorities are read again at SIGHUP: sessions of before do not go on with
// the old ones.
func TestClientCertificates(t *testing.T) {
	root, other := issue(t, nil, authority), issue(t, nil, authority) // of one name
	root.between, other.between = nil, nil
	leaf := func(by *issuer, change func(c *x509.Certificate)) *tls.Certificate {
		made := issue(t, by, change)
		if by == root || by == other {
			made.between = nil
		}
		return made.shown()
	}
	between := issue(t, root, func(c *x509.Certificate) { authority(c); c.Subject.CommonName = "between" })
	between.between = nil
	late := issue(t, root, func(c *x509.Certificate) {
		authority(c)
		c.Subject.CommonName, c.NotAfter = "late", time.Now().Add(-time.Hour)
	})
	late.between = nil
	below := issue(t, root, nil) // no authority
	below.between = nil
	right, usual := leaf(root, nil), leaf(other, nil)
	alone := *leaf(between, nil)
	alone.Certificate = alone.Certificate[:1]
	stolen := *right
	stolen.PrivateKey = other.key
	under := leaf(below, nil)
	under.Certificate = append(under.Certificate, below.Raw)
	certificates := map[string]struct {
		shown *tls.Certificate
		taken bool
	}{
		"none":                                  {&tls.Certificate{}, false},
		"by another authority of the same name": {usual, false},
		"expired":                               {leaf(root, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), false},
		"not yet valid":                         {leaf(root, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), false},
		"for servers":                           {leaf(root, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), false},
		"by itself":                             {leaf(nil, nil), false},
		"by itself, as an authority":            {leaf(nil, authority), false},
		"without the one between":               {&alone, false},
		"by one between that has expired":       {leaf(late, nil), false},
		"by one that is no authority":           {under, false},
		"with the key of another":               {&stolen, false},
		"right":                                 {right, true},
		"right, with the one between":           {leaf(between, nil), true},
		"right, for any use":                    {leaf(root, func(c *x509.Certificate) { c.ExtKeyUsage = nil }), true},
		"the authority itself":                  {root.shown(), true},
	}
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	for protocol, door := range secureDoors {
		roots := filepath.Join(dir, protocol+".pem")
		writeRoots(t, roots, root)
		s := serve(t, append([]string{filepath.Join(dir, protocol), "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", roots}, door.flags...)...)
		var sessions []*tls.Config
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			with := func(shown *tls.Certificate) *tls.Config {
				return &tls.Config{InsecureSkipVerify: true, ServerName: "copal", MinVersion: version, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1),
					GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }}
			}
			for what, c := range certificates {
				line, _ := asksByTLS(s.addr, door.request, with(c.shown))
				if c.taken && line != door.answer || !c.taken && line != "" {
					t.Errorf("%s, %s, a certificate %s: %q", protocol, tls.VersionName(version), what, line)
				}
			}
			again := with(right)
			for _, resumed := range []bool{false, true} {
				if line, is := asksByTLS(s.addr, door.request, again); line != door.answer || is.DidResume != resumed {
					t.Errorf("%s, %s, resumed %v: %q", protocol, tls.VersionName(version), is.DidResume, line)
				}
			}
			sessions = append(sessions, again)
		}
		for _, text := range []string{"", "none", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} { // changes nothing
			if err := os.WriteFile(roots, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			hangUp(t)
		}
		writeRoots(t, roots, other)
		hangUp(t)
		changed := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*usual}}
		for line := ""; line != door.answer; {
			line, _ = asksByTLS(s.addr, door.request, changed)
		}
		for _, again := range sessions {
			if line, is := asksByTLS(s.addr, door.request, again); line != "" {
				t.Errorf("%s, %s: a session goes on with an authority that has gone: %q, resumed %v", protocol, tls.VersionName(is.Version), line, is.DidResume)
			}
		}
		if code := s.end(); code != 0 {
			t.Error(code)
		}
	}
}

// No session of before --tls-client-ca goes on without a certificate.
func TestSessionsWithoutCertificates(t *testing.T) {
	dir := t.TempDir()
	c := &tlsfiles.Files{}
	c.Cert, c.Key = writeCertificate(t, dir, 1)
	if err := c.Read(); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.Config("http"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(nc, "x\r\n")
			nc.Close()
		}
	}()
	shake := func(client *tls.Config) (line string, resumed bool) {
		line, is := asksByTLS(l.Addr().String(), "", client)
		return line, is.DidResume
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := &tls.Config{InsecureSkipVerify: true, ServerName: "copal", MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		c.ClientCA = ""
		if err := c.Read(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{false, true} {
			if line, resumed := shake(client); resumed != want || line != "x" {
				t.Errorf("%s: resumed %v, %q", tls.VersionName(version), resumed, line)
			}
		}
		c.ClientCA = filepath.Join(dir, "roots.pem")
		writeRoots(t, c.ClientCA, issue(t, nil, authority))
		if err := c.Read(); err != nil {
			t.Fatal(err)
		}
		if line, resumed := shake(client); line != "" {
			t.Errorf("%s: a session goes on without a certificate, resumed %v", tls.VersionName(version), resumed)
		}
	}
}

// A port speaks its own protocol alone: a client that offers names of others is refused, and one
// that offers none is taken.
func TestProtocolsByALPN(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	offers := map[string][]string{"nothing": nil, "h2": {"h2"}, "http/1.1": {"http/1.1"}, "redis": {"redis"}, "of a browser": {"h2", "http/1.1"},
		"unknown": {"spdy/3"}, "unknown and http/1.1": {"spdy/3", "http/1.1"}, "long": {strings.Repeat("x", 255)}, "with zeros": {"\x00", "http/1.1\x00"}}
	picks := map[string]map[string]string{
		"http":  {"nothing": "", "h2": "h2", "http/1.1": "http/1.1", "of a browser": "h2", "unknown and http/1.1": "http/1.1"},
		"redis": {"nothing": "", "redis": "redis"},
	}
	for protocol, door := range secureDoors {
		s := serve(t, append([]string{filepath.Join(dir, protocol), "--tls-cert", cert, "--tls-key", key}, door.flags...)...)
		for what, names := range offers {
			c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: names})
			pick, taken := picks[protocol][what]
			if taken != (err == nil) {
				t.Errorf("%s: a client that offers %s: %v", protocol, what, err)
			}
			if err != nil {
				continue
			}
			if got := c.ConnectionState().NegotiatedProtocol; got != pick {
				t.Errorf("%s: a client that offers %s gets %q", protocol, what, got)
			}
			c.Close()
		}
		if code := s.end(); code != 0 {
			t.Error(code)
		}
	}
}

// helloOf returns the first record that a client of TLS sends.
func helloOf(t *testing.T) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	go tls.Client(there, &tls.Config{InsecureSkipVerify: true, ServerName: "copal"}).Handshake()
	record := make([]byte, 16<<10)
	n, err := here.Read(record)
	if err != nil {
		t.Fatal(err)
	}
	return record[:n]
}

// Clients of the HTTP port that break off, send something else or say hello again, and those with
// old versions or odd names: the connection of each ends, nothing is carried out, and a good client
// goes on.
func TestOddClientsOfHTTPS(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	s := serve(t, filepath.Join(dir, "store"), "--redis", "", "--http", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	insecure := &tls.Config{InsecureSkipVerify: true}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: insecure, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	url := "https://" + s.addr + "/v1/maps/m/k"
	good := func(want string) {
		t.Helper()
		if got := fetch(t, client, "GET", url, ""); got != "HTTP/2.0 "+want {
			t.Error(got)
		}
	}
	if got := fetch(t, client, "PUT", url, `"v"`); got != "HTTP/2.0 201 " {
		t.Error(got)
	}
	const put = "PUT /v1/maps/m/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1"
	first := helloOf(t)
	dialled := func() net.Conn {
		t.Helper()
		nc, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	ends := func(what string, nc net.Conn) {
		t.Helper()
		var got bytes.Buffer
		if _, err := io.Copy(&got, io.LimitReader(nc, 64<<10)); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", what, err)
		}
		if text := got.String(); strings.HasPrefix(text, "HTTP") && !strings.HasPrefix(text, "HTTP/1.0 400 Bad Request\r\n") {
			t.Errorf("%s: %q", what, text)
		}
	}
	for what, sent := range map[string]string{
		"HTTP":                 put,
		"the preface of h2":    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"RESP":                 "*1\r\n$4\r\nPING\r\n",
		"a long record":        "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16),
		"empty records":        strings.Repeat("\x16\x03\x01\x00\x00", 100),
		"data at first":        "\x17\x03\x03\x00\x05hello",
		"an alert":             "\x15\x03\x01\x00\x02\x02\x28",
		"SSL 2":                "\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + strings.Repeat("x", 37),
		"zeros":                strings.Repeat("\x00", 100),
		"half a hello":         string(first[:len(first)/2]),
		"two hellos":           string(first) + string(first),
		"a hello and a put":    string(first) + put,
		"a hello with a flaw":  string(first[:40]) + "\xff\xff\xff" + string(first[43:]),
		"a hello of many ones": "\x16\x03\x01\x00\x01" + string(first[5:6]) + strings.Repeat("\x16\x03\x01\x00\x01x", 100),
	} {
		nc := dialled()
		io.WriteString(nc, sent) // the server may close meanwhile
		nc.(*net.TCPConn).CloseWrite()
		ends(what, nc)
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		if nc, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version}); err == nil {
			nc.Close()
			t.Errorf("%s is taken", tls.VersionName(version))
		}
	}
	for _, name := range []string{"", "copal", "x\x00y", "../../etc", strings.Repeat("a.", 120) + "b", "\xff\xfe", "$(id)", "*", "127.0.0.1"} {
		line, _ := asksByTLS(s.addr, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", &tls.Config{InsecureSkipVerify: true, ServerName: name})
		if line != "HTTP/1.1 200 OK" {
			t.Errorf("a client that means %q: %q", name, line)
		}
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}
		for _, begun := range []string{"", "PUT /v1/maps/m/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n12345"} {
			for what, sent := range map[string]string{
				"another hello": string(first),
				"plain bytes":   put,
				"a bad record":  "\x17\x03\x03\x00\x20" + strings.Repeat("x", 32),
				"an alert":      "\x15\x03\x03\x00\x02\x01\x00",
				"a change":      strings.Repeat("\x14\x03\x03\x00\x01\x01", 100), // a few are ignored
				"half a record": "\x17\x03\x03\x00\x20xxxxx",
			} {
				nc, err := tls.Dial("tcp", s.addr, config)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				io.WriteString(nc, begun)
				io.WriteString(nc.NetConn(), sent)
				nc.NetConn().(*net.TCPConn).CloseWrite()
				ends(what, nc.NetConn())
			}
		}
	}
	good(`200 "v"`)
	if code := s.end(); code != 0 {
		t.Error(code)
	}
}
