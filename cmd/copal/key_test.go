package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzKey(f *testing.F) {
	for _, key := range []string{"", "a", `"`, `"a"`, " a", "a\n", "\x00", "\xff", "\ufffd", "\u2028", "世界", "\\n", "-"} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		shown := showKey(key)
		if strings.ContainsAny(shown, "\x00\n\r\x1b") || !utf8.ValidString(shown) || shown == "" {
			t.Errorf("%q is shown as %q", key, shown)
		}
		again, err := parseKey(shown, true)
		if err != nil || !bytes.Equal(again, key) {
			t.Errorf("%q is shown as %q, which is read as %q, %v", key, shown, again, err)
		}
	})
}

// Whoever reads {"key":…,"value":…} gets the JSON back, or the bytes, and knows which.
func FuzzValue(f *testing.F) {
	for _, value := range []string{"", "1", `"a"`, "{}", "null", `{"base64":"AA=="}`, `{"base64":1,"b":2}`, "\"\xff\"", " 1", "nul", "1e400"} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var out bytes.Buffer
		if err := writeJSON(&out, jsonValue(value)); err != nil {
			t.Fatal(err)
		}
		var coded map[string]any
		if json.Unmarshal(out.Bytes(), &coded) == nil && len(coded) == 1 && coded["base64"] != nil {
			got, err := base64.StdEncoding.DecodeString(coded["base64"].(string))
			if err != nil || !bytes.Equal(got, value) {
				t.Errorf("%q is written as %s", value, out.Bytes())
			}
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, value); err != nil {
			t.Fatalf("%q is written as %s: %v", value, out.Bytes(), err)
		}
		if got := strings.TrimSuffix(out.String(), "\n"); got != want.String() {
			t.Errorf("%q is written as %s", value, got)
		}
	})
}

func TestShowBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 1024: "1024 (1.0 KiB)", 1536: "1536 (1.5 KiB)", 1<<20 - 1: "1048575 (1.0 MiB)",
		5 << 30: "5368709120 (5.0 GiB)", 1 << 60: "1152921504606846976 (1048576.0 TiB)",
	} {
		if got := showBytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
