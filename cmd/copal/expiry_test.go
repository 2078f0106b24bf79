package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// A deadline that RFC 3339 cannot name is a number, in every command that shows one.
func TestDeadlineBeyondTheYear9999(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	far := time.UnixMilli(1 << 50)
	if err := db.Raw().SetUntil([]byte("far"), []byte("1"), far); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ttl", dir, "far", "--json"}, {"get", dir, "far", "--json"}, {"ls", dir, "--json"}, {"scan", dir, "--json"}} {
		var out, errs bytes.Buffer
		if code := carryOut(cli.NewApp(nil, &out, &errs), args); code != 0 {
			t.Errorf("%v: exit %d, %s", args, code, &errs)
			continue
		}
		var line struct{ Expires int64 }
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Expires != far.UnixMilli() {
			t.Errorf("%v: %s: %v", args, &out, err)
		}
	}
}
