package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Files are the files of a server: its certificate, the key, and the authorities of client
// certificates, "" for none.
type Files struct {
	Cert, Key, ClientCA string

	now atomic.Pointer[map[string]*tls.Config] // by protocol
}

// alpn has the names of each protocol. A client that offers only other names is refused: no browser
// speaks to the Redis port, and a client that is led to the other port notices. A client may offer
// none.
var alpn = map[string][]string{"http": {"h2", "http/1.1"}, "redis": {"redis"}}

// Read reads the files. After an error the contents of before stay.
func (f *Files) Read() error {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if f.ClientCA != "" {
		text, err := os.ReadFile(f.ClientCA)
		if err != nil {
			return err
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		if config.ClientCAs, err = authorities(text); err != nil {
			return fmt.Errorf("%s: %w", f.ClientCA, err)
		}
	}
	now := map[string]*tls.Config{}
	for protocol, names := range alpn {
		now[protocol] = config.Clone()
		now[protocol].NextProtos = names
	}
	f.now.Store(&now)
	return nil
}

// Config returns the configuration of a protocol, "http" or "redis". Each handshake uses the files
// that were read last; open connections keep those of their beginning.
func (f *Files) Config(protocol string) *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return (*f.now.Load())[protocol], nil }}
}

// authorities returns the certificates in a file. Unlike AppendCertsFromPEM it returns an error for
// a damaged one: its clients would be refused for no visible reason.
func authorities(text []byte) (*x509.CertPool, error) {
	pool, named := x509.NewCertPool(), bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----"))
	for n := 1; n <= named; n++ {
		var block *pem.Block
		for block, text = pem.Decode(text); block != nil && block.Type != "CERTIFICATE"; {
			block, text = pem.Decode(text)
		}
		if block == nil {
			return nil, fmt.Errorf("of %d certificates only %d can be read", named, n-1)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of %d: %w", n, named, err)
		}
		pool.AddCert(c)
	}
	if named == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return pool, nil
}
