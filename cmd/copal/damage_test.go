package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestDamageAnywhere changes one byte of a store, each time in another kind of place. Commands that
// read go on with the intact entries, check and repair count the same, and commands that write name
// repair as the way out.
func TestDamageAnywhere(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	makeOfEverything(t, made)
	log := filepath.Join(made, "00000001.log")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"first", "plain", "users:alice", "large", "tx1", "tx2", "last"}
	for _, c := range []struct {
		where, at string
		lost      []string // of all
	}{
		{"a value", "value of plain", []string{"plain"}},
		{"a key", "plain value of", []string{"plain"}},
		{"a schema", "binary struct", []string{"users:alice"}},
		{"the declaration of a map", "map:users", nil},
		{"a value of a map", "users:alice", []string{"users:alice"}},
		{"the declaration of elements", "elements keys", nil},
		{"an element of a hash", "apples 1", nil},
		{"an element of a list", `"one"`, nil},
		{"an owner", "; cart", nil},
		{"a meta", "cart hash", nil},
		{"the end of a group", "1  4\n", nil},
		{"a part of a large value", "0123456789abcdef0123", []string{"large"}},
		{"the list of parts", "large 100000 1.", []string{"large"}},
		{"a range deletion", "old: \n", []string{"plain", "users:alice", "tx1", "tx2"}}, // all older ones from there on
		{"the kind of a range deletion", "Rv 0 0", nil},
		{"a member of a group", "tx1 in a", []string{"tx1", "tx2"}},
		{"the last record", "last 1", []string{"last"}},
		{"the first line", "copal log 1", nil},
		{"the salt of the first line", "salt ", nil},
	} {
		t.Run(c.where, func(t *testing.T) {
			at := bytes.Index(text, []byte(c.at))
			if at < 0 {
				t.Fatalf("there is no %q", c.at)
			}
			dir := filepath.Join(t.TempDir(), "db")
			if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
				t.Fatal(err)
			}
			damaged := bytes.Clone(text)
			damaged[at] ^= 1
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(log)), damaged, 0o666); err != nil {
				t.Fatal(err)
			}
			kept := slices.DeleteFunc(slices.Clone(all), func(key string) bool { return slices.Contains(c.lost, key) })
			lookAtDamaged(t, dir, kept)
		})
	}
}

// lookAtDamaged runs commands on a damaged store of which some keys are intact.
func lookAtDamaged(t *testing.T, dir string, kept []string) {
	run := func(want int, args ...string) (out, errs string) {
		t.Helper()
		var o, e bytes.Buffer
		if code := carryOut(cli.NewApp(strings.NewReader(""), &o, &e), args); code != want {
			t.Errorf("copal %s: exit code %d, want %d: %.300s %.600s", strings.Join(args, " "), code, want, o.String(), e.String())
		}
		return o.String(), e.String()
	}
	get := func(code int, dir string) {
		t.Helper()
		for _, key := range kept {
			if out, _ := run(code, "get", dir, key); out == "" {
				t.Errorf("there is nothing under %s in %s", key, filepath.Base(dir))
			}
		}
	}
	get(6, dir)
	run(6, "get", dir, "no such key")
	for _, args := range []string{"ls", "ls --long", "count", "stat", "scan", "ls --json first"} {
		words := strings.Fields(args)
		if _, errs := run(6, append([]string{words[0], dir}, words[1:]...)...); strings.Count(errs, "\n") > 3 {
			t.Errorf("copal %s says the same again and again: %s", args, errs)
		}
	}
	if _, errs := run(6, "set", dir, "a", "b"); !strings.Contains(errs, "copal repair") {
		t.Errorf("a write is refused with %s", errs)
	}

	var checked, salvaged struct {
		Records, Intact, LostBytes, TornBytes int64
		Problems, Lost                        []struct{ Offset int64 }
	}
	out, _ := run(6, "check", dir, "--json")
	dry, _ := run(0, "repair", dir, "--dry-run", "--json")
	if err := errors.Join(json.Unmarshal([]byte(out), &checked), json.Unmarshal([]byte(dry), &salvaged)); err != nil {
		t.Fatal(err)
	}
	same := checked.Records == salvaged.Intact && checked.TornBytes == salvaged.TornBytes && slices.Equal(checked.Problems, salvaged.Lost)
	if !same {
		t.Errorf("check and repair do not count the same: %s %s", out, dry)
	}

	for how, make := range map[string]func(to string){
		"repair": func(to string) { run(0, "repair", dir, to) },
		"export": func(to string) {
			run(6, "export", dir, to+".ndjson", "--skip-bad")
			run(0, "import", to, to+".ndjson")
		},
	} {
		to := filepath.Join(t.TempDir(), how)
		make(to)
		run(0, "check", to)
		get(0, to)
		run(0, "set", to, "a", "b")
	}
}

// makeOfEverything makes a store with a record of every kind.
func makeOfEverything(t *testing.T, dir string) {
	type user struct{ Name string }
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	raw := db.Raw()
	users, err := copal.OpenMap[string, user](db, "users", copal.WithCodec(codec.Binary))
	cart, err2 := copal.OpenHash[string, int](db, "cart")
	list, err3 := copal.OpenList[string](db, "list")
	err = errors.Join(err, err2, err3,
		raw.Set([]byte("first"), []byte("1")),
		raw.Set([]byte("plain"), []byte("value of plain")),
		users.Set("alice", user{"Alice"}),
		cart.SetAll(map[string]int{"apples": 1, "pears": 2}),
		list.PushBack("one", "two"),
		raw.Set([]byte("large"), bytes.Repeat([]byte("0123456789abcdef"), 3<<16)),
		raw.Set([]byte("old:1"), []byte("x")),
		raw.Set([]byte("old:2"), []byte("x")),
		raw.DeletePrefix([]byte("old:")),
		db.Update(func(tx *copal.Tx) error {
			return errors.Join(tx.Raw().Set([]byte("tx1"), []byte("in a group")), tx.Raw().Set([]byte("tx2"), []byte("in a group")))
		}),
		raw.Set([]byte("last"), []byte("1")),
		db.Close(),
	)
	logtest.RemoveIndex(vfs.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
}
