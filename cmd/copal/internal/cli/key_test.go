package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzKey(f *testing.F) {
	for _, key := range []string{"", "a", `"`, `"a"`, " a", "a\n", "\x00", "\xff", "\ufffd", "\u2028", "世界", "\\n", "-"} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		shown := ShowKey(key)
		if strings.ContainsAny(shown, "\x00\n\r\x1b") || !utf8.ValidString(shown) || shown == "" {
			t.Errorf("%q is shown as %q", key, shown)
		}
		again, err := ParseKey(shown, true)
		if err != nil || !bytes.Equal(again, key) {
			t.Errorf("%q is shown as %q, which is read as %q, %v", key, shown, again, err)
		}
	})
}

// A reader of {"key":…,"value":…} gets key and value back, to the bit, and an entry is one line.
func FuzzEntryLine(f *testing.F) {
	for _, value := range []string{"", "1", `"a"`, "{}", "null", `{"base64":"AA=="}`, `{ "b" : 1.0 }`, "\"\xff\"", " 1", "nul", "1e400", "a\nb", "{\n}", "\u2028"} {
		f.Add([]byte("key"), []byte(value))
	}
	f.Add([]byte("\xff"), []byte(nil))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		var b bytes.Buffer
		out := bufio.NewWriter(&b)
		if err := errors.Join(WriteEntry(out, key, nil, value), out.Flush()); err != nil {
			t.Fatal(err)
		}
		if line := b.Bytes(); bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Errorf("%q is written as %q", value, line)
		}
		var line struct {
			Key    any
			Value  json.RawMessage
			Text   *string
			Base64 *[]byte
		}
		if err := json.Unmarshal(b.Bytes(), &line); err != nil {
			t.Fatalf("%q is written as %s: %v", value, b.Bytes(), err)
		}
		got := []byte(line.Value)
		switch {
		case line.Text != nil:
			got = []byte(*line.Text)
		case line.Base64 != nil:
			got = *line.Base64
		}
		if !bytes.Equal(got, value) || line.Value == nil && line.Text == nil && line.Base64 == nil {
			t.Errorf("%q is written as %s", value, b.Bytes())
		}
		if text, ok := line.Key.(string); ok && text != string(key) {
			t.Errorf("key %q is written as %s", key, b.Bytes())
		}
	})
}

func TestShowBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 1024: "1024 (1.0 KiB)", 1536: "1536 (1.5 KiB)", 1<<20 - 1: "1048575 (1.0 MiB)",
		5 << 30: "5368709120 (5.0 GiB)", 1 << 60: "1152921504606846976 (1048576.0 TiB)",
	} {
		if got := ShowBytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
