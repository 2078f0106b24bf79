package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
)

// certificate is what the server shows its clients. It is read anew at SIGHUP. Connections that are open keep what they
// began with.
type certificate struct {
	cert, key, clientCA string
	now                 atomic.Pointer[tls.Config]
}

// certificate is what the flags name, nil for none.
func (s *serving) certificate() (*certificate, error) {
	switch {
	case s.cert == "" && s.key == "" && s.clientCA == "":
		return nil, nil
	case s.cert == "" || s.key == "":
		return nil, usageError{"TLS needs --tls-cert and --tls-key"}
	case s.redis == "" && s.http == "":
		return nil, usageError{"TLS is for the addresses of --redis and --http, which are empty"}
	}
	c := &certificate{cert: s.cert, key: s.key, clientCA: s.clientCA}
	return c, c.read()
}

// read reads the files. On an error what was read before stays.
func (c *certificate) read() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.clientCA != "" {
		text, err := os.ReadFile(c.clientCA)
		if err != nil {
			return err
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("there is no certificate in %s", c.clientCA)
		}
	}
	c.now.Store(config)
	return nil
}

// config asks for the certificate at each handshake.
func (c *certificate) config() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load(), nil }}
}
