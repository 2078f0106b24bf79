package sparing

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOrigin(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:2": "192.0.2.1/32", "[2001:db8::1:2]:3": "2001:db8::/64", "[fe80::1%eth0]:4": "fe80::/64",
		"@": "invalid Prefix", "": "invalid Prefix", "/run/copal.sock": "invalid Prefix", "pipe": "invalid Prefix",
	} {
		if got := Origin(address).String(); got != want {
			t.Errorf("%q comes from %s, want %s", address, got, want)
		}
	}
}

func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var l Log
		to := slog.New(slog.NewTextHandler(&out, nil))
		for range 100 {
			l.Warn(to, "event", "from", "a")
			time.Sleep(time.Second)
		}
		lines := strings.SplitAfter(out.String(), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], "msg=event from=a more=0") || !strings.Contains(lines[1], "more=59") {
			t.Errorf("%q", lines)
		}
	})
}
