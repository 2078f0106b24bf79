package redisapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// certificate is one for 127.0.0.1, made for the test.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	text, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}
}

// A client that opens a TLS connection and sends nothing delays no other client, whether it is
// accepted or refused as one too many.
func TestSilentClientsOfTLS(t *testing.T) {
	s, address := newServer(t, func(s *Server) { s.MaxClients = 3 })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pair := certificate(t)
	go s.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}}))
	plain := dial(t, address)
	plain.want("PING", "PONG")
	root := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	root.AddCert(leaf)
	nc, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: root})
	if err != nil {
		t.Fatal(err)
	}
	newPeer(t, nc).want("PING", "PONG")
	silent := dialled(t, l.Addr().String())
	for strings.Count(plain.do("CLIENT LIST"), "id=") < 3 {
	}
	dialled(t, l.Addr().String()) // one too many
	for s.counts.rejected.Load() == 0 {
		plain.want("PING", "PONG")
	}
	if got := plain.do("CLIENT LIST"); strings.Count(got, "id=") != 3 {
		t.Error(got)
	}
	silent.Close()
	for strings.Count(plain.do("CLIENT LIST"), "id=") > 2 {
	}
}
