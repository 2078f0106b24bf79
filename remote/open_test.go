package remote

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/redisserver"
	"github.com/copaldb/copal/redisapi"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]Config{
		"redis://":                                   {Addresses: []string{"localhost:6379"}},
		"redis://h":                                  {Addresses: []string{"h:6379"}},
		"redis://h:1/":                               {Addresses: []string{"h:1"}},
		"redis://h:1,k,[::1]:3,[::2]/7":              {Addresses: []string{"h:1", "k:6379", "[::1]:3", "[::2]:6379"}, DB: 7},
		"redis://u:p%40%3a%2F@h":                     {Addresses: []string{"h:6379"}, Username: "u", Password: "p@:/"},
		"redis://:p:q@r@h":                           {Addresses: []string{"h:6379"}, Password: "p:q@r"},
		"redis://h?timeout=2s&db=3":                  {Addresses: []string{"h:6379"}, Timeout: 2 * time.Second, DB: 3},
		"redis://h,k?master=m&connections=9&dial=1s": {Addresses: []string{"h:6379", "k:6379"}, Master: "m", MaxConnections: 9, DialTimeout: time.Second},
		"unix:///run/a%20b.sock?db=1":                {Addresses: []string{"/run/a b.sock"}, DB: 1},
		"rediss://h":                                 {Addresses: []string{"h:6379"}, TLS: &tls.Config{}},
		"redis://h?tls=1&insecure=1&servername=x":    {Addresses: []string{"h:6379"}, TLS: &tls.Config{InsecureSkipVerify: true, ServerName: "x"}},
	} {
		c, err := ParseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		encrypted := c.TLS != nil
		if encrypted != (want.TLS != nil) || encrypted && (c.TLS.InsecureSkipVerify != want.TLS.InsecureSkipVerify || c.TLS.ServerName != want.TLS.ServerName) {
			t.Errorf("%s: TLS is %v", text, c.TLS)
		}
		if strings.Join(c.Addresses, " ") != strings.Join(want.Addresses, " ") || c.DB != want.DB || c.Timeout != want.Timeout ||
			c.Master != want.Master || c.MaxConnections != want.MaxConnections || c.DialTimeout != want.DialTimeout ||
			c.Username != want.Username || c.Password != want.Password {
			t.Errorf("%s is %+v, want %+v", text, c, want)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, text := range []string{
		"", "h:1", "http://h", "redis:h", "redis://h:x", "redis://h:0", "redis://h:70000", "redis://a:b:c", "redis://[::1", "redis://h/x", "redis://h/1/2", "redis://h/-1",
		"redis://h?timeout=2", "redis://h?timeout=-1s", "redis://h?dial=0s", "redis://h?connections=0", "redis://h?master=", "redis://h?nothing=1", "redis://h?insecure=1", "redis://h?cacert=/x", "redis://h?db=x", "redis://h?%zz",
		"rediss://h?cacert=/does/not/exist", "rediss://h?cert=/does/not/exist", "rediss://h?insecure=x", "unix://h/x", "unix://",
		"redis://u:secret%zz@h", "redis://u:secret#1@h", "redis://u:secret/1@h", "redis://u:secret?x@h", "redis://u:secret@h:x", "redis://u:secret@h?x=1",
	} {
		_, err := ParseURL(text)
		if err == nil || !strings.HasPrefix(err.Error(), "copal: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzParseURL: a URL is parsed or refused, and an error never has the password.
func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"redis://u:p@h:1,k/2?timeout=1s", "rediss://[::1]:2", "unix:///a", "redis://u:pass%2f/@h"} {
		f.Add(text, "pässword")
	}
	f.Fuzz(func(t *testing.T, text, password string) {
		if c, err := ParseURL(text); err == nil {
			if err := c.check(); err != nil {
				t.Errorf("%q is parsed, and refused then: %v", text, err)
			}
		}
		if password = strings.ToUpper(password); len(password) < 12 || strings.ContainsAny(password, "?#/") {
			return
		}
		if _, err := ParseURL("redis://u:" + password + "@" + text); err != nil && strings.Contains(err.Error(), password) && !strings.Contains(text, password) {
			t.Errorf("the password %q is shown: %v", password, err)
		}
	})
}

func TestOpenFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	address := serveCopal(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, fails := range []struct {
		ctx       context.Context
		url, says string
	}{
		{t.Context(), "redis://u:secret@" + nobody, "there is no connection to " + nobody},
		{t.Context(), "unix:///does/not/exist", "there is no connection to /does/not/exist"},
		{t.Context(), "rediss://" + address, "does not speak TLS"},
		{t.Context(), "redis://" + address + "/77777", "DB index is out of range"},
		{ctx, "redis://" + address, "context canceled"},
	} {
		db, err := Open(fails.ctx, fails.url)
		if err == nil {
			t.Errorf("%s is open", fails.url)
			db.Close()
		} else if !strings.Contains(err.Error(), fails.says) || strings.Contains(err.Error(), "secret") || fails.ctx.Err() == nil && !strings.HasPrefix(err.Error(), "copal: ") {
			t.Errorf("%s: %v", fails.url, err)
		}
	}
}

func TestPassword(t *testing.T) {
	_, address := redisserver.Start(t, "--requirepass", "secret")
	for _, user := range []string{"", ":wrong-secret@", "nobody:secret@"} {
		_, err := Open(t.Context(), "redis://"+user+address)
		if err == nil || !strings.Contains(err.Error(), "does not accept the user and the password") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", user, err)
		}
	}
	for _, user := range []string{":secret@", "default:secret@"} {
		db, err := Open(t.Context(), "redis://"+user+address+"/3")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Raw().Set([]byte("k"), []byte("v")), db.Close()); err != nil {
			t.Error(err)
		}
		if err := db.Raw().Set([]byte("k"), []byte("v")); !errors.Is(err, copal.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// certificate makes one for localhost, and returns it, and the file that has it.
func certificate(t *testing.T) (c tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func TestTLS(t *testing.T) {
	own, file := certificate(t)
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &redisapi.Server{DB: db}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Shutdown(context.Background())
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	for url, says := range map[string]string{
		"rediss://" + address:                                          "not trusted",
		"rediss://localhost:" + port + "?cacert=" + file:               "",
		"rediss://" + address + "?servername=localhost&cacert=" + file: "",
		"rediss://" + address + "?servername=elsewhere&cacert=" + file: "not trusted",
		"redis://" + address + "?tls=true&insecure=true":               "",
	} {
		db, err := Open(t.Context(), url)
		switch {
		case says == "" && err != nil:
			t.Errorf("%s: %v", url, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v", url, err)
		}
		if err == nil {
			db.Close()
		}
	}
}

// TestUsersWithoutHashes: a user may have the right to a script, and not to call it by its hash.
func TestUsersWithoutHashes(t *testing.T) {
	address := startRedis(t)
	admin := base(inCluster.driverOf(t, address))
	if _, err := admin.get(t.Context(), plain("ACL", "SETUSER", "me", "on", ">secret", "~*", "+@all", "-evalsha")); err != nil {
		t.Fatal(err)
	}
	m, err := copal.OpenMap[string, int](store(t, inCluster.connect(t, Config{Addresses: []string{address}, Username: "me", Password: "secret"})), "m")
	if err != nil {
		t.Fatal(err)
	}
	for want := range 2 {
		if n, _, err := m.Update("n", func(e *copal.Entry[int]) error { e.Value = want; return nil }); n != want || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
}

// A copal serve that is a cluster of one is used as the server that it is, at the address that the program names: the
// one that it announces may be for others.
func TestOpensAClusterOfOne(t *testing.T) {
	own, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &redisapi.Server{DB: own, ClusterAddress: "elsewhere.invalid:6379"}
	go s.Serve(l)
	defer s.Shutdown(context.Background())
	db, err := Open(t.Context(), "redis://"+l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *copal.Tx) error {
		raw := db.Raw().In(tx)
		return errors.Join(raw.Set([]byte("a"), []byte("1")), raw.Set([]byte("b"), []byte("2")))
	}); err != nil {
		t.Fatal(err)
	}
	if n := own.Raw().Len(); n != 2 {
		t.Errorf("the store has %d keys", n)
	}
}
