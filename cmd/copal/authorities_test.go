//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/copaldb/copal/cmd/copal/internal/tlsfiles"
)

// TestDamagedAuthorities: a file of authorities of which one cannot be read is an error, even if
// the others are sound.
func TestDamagedAuthorities(t *testing.T) {
	dir := t.TempDir()
	f := &tlsfiles.Files{ClientCA: filepath.Join(dir, "roots.pem")}
	f.Cert, f.Key = writeCertificate(t, dir, 1)
	writeRoots(t, f.ClientCA, issue(t, nil, authority), issue(t, nil, authority))
	if err := f.Read(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(f.ClientCA)
	if err != nil {
		t.Fatal(err)
	}
	second := bytes.LastIndex(good, []byte("-----BEGIN"))
	for name, damaged := range map[string][]byte{
		"empty":                    nil,
		"no certificate":           []byte("secret\n"),
		"only a key":               bytes.ReplaceAll(good, []byte("CERTIFICATE"), []byte("PRIVATE KEY")),
		"the first in its bytes":   append([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), good...),
		"the first in its letters": bytes.Replace(good, []byte("MII"), []byte("M!!"), 1),
		"the second cut off":       good[:second+100],
		"the second in its bytes":  append(good[:second:second], "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...),
		"no end of the first":      bytes.Replace(good, []byte("-----END CERTIFICATE-----"), nil, 1),
	} {
		if err := os.WriteFile(f.ClientCA, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Read(); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	roots := append([]byte("of the office\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), good...)
	if err := os.WriteFile(f.ClientCA, append(roots, "\nthe end\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Read(); err != nil {
		t.Errorf("with a key and words beside the certificates: %v", err)
	}
}
