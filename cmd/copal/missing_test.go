package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// storeOfMaps returns a store with maps of several types of keys.
func storeOfMaps(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		Room string
		No   int
	}
	users, err1 := copal.OpenMap[string, int](db, "users")
	ages, err2 := copal.OpenMap[int, int](db, "ages")
	seen, err3 := copal.OpenMap[time.Time, int](db, "seen")
	places, err4 := copal.OpenMap[place, int](db, "places")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(users.Set("alice", 1), ages.Set(7, 1), seen.Set(time.Unix(0, 0), 1), places.Set(place{"kitchen", 1}, 1),
		db.Raw().Set([]byte("raw:a"), []byte("1")), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestKeyInTheWrongSpelling: a key in a spelling that its map does not use is an error for reads
// and writes, and not a missing entry.
func TestKeyInTheWrongSpelling(t *testing.T) {
	dir := storeOfMaps(t)
	for key, right := range map[string]string{
		"ages:07": `"7"`, "ages:seven": `"42"`, "seen:1970-01-01T00:00:00": `Z"`, "seen:1970-01-01T00:00:00Z": `"1970-01-01T00:00:00.000000000Z"`,
		"places:kitchen": `"alice/42"`, "places:kitchen/01": `"kitchen/1"`,
	} {
		for _, args := range [][]string{{"set", dir, key, "1"}, {"get", dir, key}, {"has", dir, key}, {"ttl", dir, key}, {"ttl", dir, key, "1h"}, {"del", dir, key}, {"log", dir, key}} {
			code, out, told := command(nil, args...)
			if code != cli.ExitError || out != "" || !strings.Contains(told, "it is no key of map") || !strings.Contains(told, right) {
				t.Errorf("%s %s: code %d, %q, %q; want an example with %s", args[0], key, code, out, told, right)
			}
		}
	}
	for _, key := range []string{"ages:8", "users:07", "raw:07", "07"} {
		if code, _, told := command(nil, "get", dir, key); code != cli.ExitNotFound || !strings.Contains(told, "not found: "+key) {
			t.Errorf("get %s: code %d, %q", key, code, told)
		}
	}
}

// TestUnknownMap: with --exists a map that does not exist is an error, which has the nearest name.
func TestUnknownMap(t *testing.T) {
	dir := storeOfMaps(t)
	for _, c := range []struct{ prefix, says string }{
		{"users:", ""}, {"users:al", ""}, {"raw:", ""}, {"use", ""}, {"", ""},
		{"usres:", "there is no map usres; the nearest name is users"},
		{"user:a", "there is no map user; the nearest name is users"},
		{"plaecs:kitchen", "there is no map plaecs; the nearest name is places"},
		{"anything:", "there is no map anything"},
	} {
		for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"scan"}, {"scan", "--keys"}, {"range"}, {"count"}} {
			args = append([]string{args[0], dir, c.prefix}, args[1:]...)
			code, out, told := command(nil, append(args, "--exists")...)
			if want := map[bool]int{true: cli.ExitOK, false: cli.ExitNotFound}[c.says == ""]; code != want || !strings.Contains(told, c.says) || c.says != "" && out != "" {
				t.Errorf("%q --exists: code %d, %q, %q, want %d and %q", args, code, out, told, want, c.says)
			}
			if code, _, told := command(nil, args...); code != cli.ExitOK || told != "" {
				t.Errorf("%q: code %d, %q", args, code, told)
			}
		}
	}
	if code, _, told := command(nil, "export", dir, "--map", "usres"); code != cli.ExitNotFound || !strings.Contains(told, "the nearest name is users") {
		t.Errorf("export: code %d, %q", code, told)
	}
}

// TestArgumentsAreCounted: the message says how many arguments there are, of commands with and
// without a store.
func TestArgumentsAreCounted(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"token"}, "the arguments are USER, and there are 0"},
		{[]string{"token", "a", "b"}, "the arguments are USER, and there are 2"},
		{[]string{"get", "dir"}, "the arguments are DIR KEY, and there are 1"},
		{[]string{"copy", "a"}, ", and there are 1"},
	} {
		if code, _, told := command(nil, c.args...); code != cli.ExitUsage || !strings.Contains(told, c.says) {
			t.Errorf("%q: code %d, %q, want %q", c.args, code, told, c.says)
		}
	}
}
