package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// --at takes a time, too, and shows the entries written by then.
func TestGetAtATime(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	written := make([]time.Time, 2)
	for i := range written {
		if err := db.Raw().Set([]byte("k"), []byte{'0' + byte(i)}); err != nil {
			t.Fatal(err)
		}
		written[i] = time.Now()
		for time.Now().UnixMilli() == written[i].UnixMilli() { // the next record has a later time
		}
	}
	for i, at := range written {
		for _, text := range []string{at.Format(time.RFC3339Nano), at.Format("2006-01-02 15:04:05.999999999")} {
			var out, errs bytes.Buffer
			if code := carryOut(cli.NewApp(nil, &out, &errs), []string{"get", dir, "k", "--at", text}); code != cli.ExitOK || out.String() != string('0'+rune(i)) {
				t.Errorf("at %s: exit code %d, %s%s", text, code, &out, &errs)
			}
			for _, args := range [][]string{{"log", dir}, {"log", dir, "k"}} {
				out.Reset()
				code := carryOut(cli.NewApp(nil, &out, &errs), append(args, "--json", "--since", text))
				if got := strings.Count(out.String(), `"seq"`); code != cli.ExitOK || got != len(written)-1-i {
					t.Errorf("%v since %s: exit code %d, %s%s", args, text, code, &out, &errs)
				}
			}
		}
	}
}
