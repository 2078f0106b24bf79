package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/codec"
)

type storesKey struct{}

// heldStores are the stores that a script has open for writing, by directory.
type heldStores map[string]*copal.DB

func holdStores(env *testscript.Env) error {
	held := heldStores{}
	env.Values[storesKey{}] = held
	env.Defer(func() {
		for _, db := range held {
			db.Close()
		}
	})
	return nil
}

func storeCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		// open DIR holds a store open for writing until close DIR or the end of the script.
		"open": func(ts *testscript.TestScript, _ bool, args []string) {
			dir := ts.MkAbs(args[0])
			stores(ts)[dir] = openToWrite(ts, dir)
		},
		"close": func(ts *testscript.TestScript, _ bool, args []string) {
			dir := ts.MkAbs(args[0])
			ts.Check(stores(ts)[dir].Close())
			delete(stores(ts), dir)
		},
		// put DIR KEY VALUE writes an entry. Key and value may be Go string literals.
		"put": func(ts *testscript.TestScript, _ bool, args []string) {
			write(ts, args[0], func(db *copal.DB) error { return db.Raw().Set(goLiteral(ts, args[1]), goLiteral(ts, args[2])) })
		},
		// putuntil DIR KEY VALUE TIME writes an entry that expires then, to the millisecond.
		"putuntil": func(ts *testscript.TestScript, _ bool, args []string) {
			write(ts, args[0], func(db *copal.DB) error { return putUntil(db, goLiteral(ts, args[1]), goLiteral(ts, args[2]), args[3]) })
		},
		"del": func(ts *testscript.TestScript, _ bool, args []string) {
			write(ts, args[0], func(db *copal.DB) error {
				existed, err := db.Raw().Delete(goLiteral(ts, args[1]))
				if err == nil && !existed {
					err = errors.New("there was nothing to delete")
				}
				return err
			})
		},
		// clear DIR PREFIX deletes all keys that begin so, by one record.
		"clear": func(ts *testscript.TestScript, _ bool, args []string) {
			write(ts, args[0], func(db *copal.DB) error { return db.Raw().DeletePrefix([]byte(args[1])) })
		},
		// untimed FILE takes the times out of a text, but for those of years to come.
		"untimed": func(ts *testscript.TestScript, _ bool, args []string) {
			ts.Check(os.WriteFile(ts.MkAbs(args[0]), timeOfNow.ReplaceAll([]byte(ts.ReadFile(args[0])), []byte("TIME")), 0o666))
		},
		// cutoff FILE N takes the last N bytes off.
		"cutoff": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.Atoi(args[1])
			ts.Check(err)
			path := ts.MkAbs(args[0])
			ts.Check(os.Truncate(path, int64(len(ts.ReadFile(args[0]))-n)))
		},
		// fill DIR N writes key-000000 and so on.
		"fill": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.Atoi(args[1])
			ts.Check(err)
			write(ts, args[0], func(db *copal.DB) error { return fillStore(db, n) })
		},
		// typed DIR writes two entries of the map users.
		"typed": func(ts *testscript.TestScript, _ bool, args []string) { write(ts, args[0], addUsers) },
		// collections DIR before|after writes one of each type, or changes them.
		"collections": func(ts *testscript.TestScript, _ bool, args []string) {
			write(ts, args[0], func(db *copal.DB) error { return writeCollections(db, args[1] == "after") })
		},
		// hash DIR KEY writes a hash of two fields.
		"hash": func(ts *testscript.TestScript, _ bool, args []string) {
			write(ts, args[0], func(db *copal.DB) error {
				h, err := copal.OpenHash[string, int](db, args[1])
				if err == nil {
					err = h.SetAll(map[string]int{"a": 1, "b": 2})
				}
				return err
			})
		},
		// users DIR prints the map users to standard output, for stdout and cmp.
		"users": func(ts *testscript.TestScript, _ bool, args []string) {
			write(ts, args[0], func(db *copal.DB) error { return printUsers(ts, db) })
		},
		// counters DIR writes the entry a, 7, of a map of numbers in a codec that is not text.
		"counters": func(ts *testscript.TestScript, _ bool, args []string) {
			write(ts, args[0], func(db *copal.DB) error {
				m, err := countersOf(db)
				if err == nil {
					err = m.Set("a", 7)
				}
				return err
			})
		},
		// counter DIR KEY N wants that value in it.
		"counter": func(ts *testscript.TestScript, _ bool, args []string) {
			write(ts, args[0], func(db *copal.DB) error {
				m, err := countersOf(db)
				if err != nil {
					return err
				}
				if n, err := m.Load(args[1]); err != nil || strconv.Itoa(n) != args[2] {
					return fmt.Errorf("%d, %v", n, err)
				}
				return nil
			})
		},
		// pid STREAM wants the number of this process in it, which holds the stores.
		"pid": func(ts *testscript.TestScript, _ bool, args []string) {
			if text := ts.ReadFile(args[0]); !strings.Contains(text, fmt.Sprintf("process %d", os.Getpid())) {
				ts.Fatalf("it does not name process %d: %s", os.Getpid(), text)
			}
		},
		// flip FILE OFFSET changes a bit of a byte; a negative offset counts from the end.
		"flip": func(ts *testscript.TestScript, _ bool, args []string) {
			offset, err := strconv.Atoi(args[1])
			ts.Check(err)
			b := []byte(ts.ReadFile(args[0]))
			if offset < 0 {
				offset += len(b)
			}
			b[offset] ^= 1
			ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
		},
		// aftercut DIR COPY copies a store as a power cut leaves it: with the bytes of the
		// segments, and without the ring.
		"aftercut": func(ts *testscript.TestScript, _ bool, args []string) {
			from, to := ts.MkAbs(args[0]), ts.MkAbs(args[1])
			names, err := filepath.Glob(filepath.Join(from, "*"))
			ts.Check(err)
			ts.Check(os.MkdirAll(to, 0o777))
			for _, path := range names {
				b := []byte(ts.ReadFile(path))
				if filepath.Base(path) == "RING" {
					clear(b)
				}
				ts.Check(os.WriteFile(filepath.Join(to, filepath.Base(path)), b, 0o666))
			}
		},
		// cut FILE N cuts N bytes off the end.
		"cut": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.Atoi(args[1])
			ts.Check(err)
			ts.Check(os.Truncate(ts.MkAbs(args[0]), int64(len(ts.ReadFile(args[0]))-n)))
		},
	}
}

var timeOfNow = regexp.MustCompile(`20[0-4][0-9]-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z?`)

func stores(ts *testscript.TestScript) heldStores { return ts.Value(storesKey{}).(heldStores) }

// openToWrite opens a store that does not sync by itself while a script runs: its state after a
// crash does not depend on the duration.
func openToWrite(ts *testscript.TestScript, dir string) *copal.DB {
	db, err := copal.Open(dir, copal.WithSyncInterval(time.Hour), copal.WithErrorHandler(func(err error) { ts.Logf("%v", err) }))
	ts.Check(err)
	return db
}

// write changes a store that the script holds open, or one that is opened for it.
func write(ts *testscript.TestScript, arg string, f func(db *copal.DB) error) {
	dir := ts.MkAbs(arg)
	if db, ok := stores(ts)[dir]; ok {
		ts.Check(f(db))
		return
	}
	db := openToWrite(ts, dir)
	ts.Check(errors.Join(f(db), db.Close()))
}

func goLiteral(ts *testscript.TestScript, arg string) []byte {
	b, err := cli.ParseKey(arg, true)
	ts.Check(err)
	return b
}

func fillStore(db *copal.DB, n int) error {
	for i := range n {
		if err := db.Raw().Set(fmt.Appendf(nil, "key-%06d", i), fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
			return err
		}
	}
	return db.Sync() // the scripts look at the files
}

func putUntil(db *copal.DB, key, value []byte, deadline string) error {
	t, err := time.Parse(time.RFC3339Nano, deadline)
	if err != nil {
		return err
	}
	return db.Raw().SetUntil(key, value, t)
}

type user struct {
	Name string
	Age  int
}

func addUsers(db *copal.DB) error {
	users, err := copal.OpenMap[string, user](db, "users")
	if err != nil {
		return err
	}
	return errors.Join(users.Set("alice", user{"Alice", 28}), users.Set("bob", user{"Bob <b@x>", 31}))
}

func printUsers(ts *testscript.TestScript, db *copal.DB) error {
	users, err := copal.OpenMap[string, user](db, "users")
	if err != nil {
		return err
	}
	for name, u := range users.Prefix("") {
		fmt.Fprintf(ts.Stdout(), "%s: %v\n", name, u)
	}
	return nil
}

func countersOf(db *copal.DB) (*copal.Map[string, int], error) {
	return copal.OpenMap[string, int](db, "counters", copal.WithCodec(codec.Binary))
}

// writeCollections writes a hash, a list, a set and a sorted set, or changes them.
func writeCollections(db *copal.DB, after bool) error {
	h, err1 := copal.OpenHash[string, int](db, "stock")
	l := db.Raw().List([]byte("queue"))
	s, err2 := copal.OpenSet[string](db, "tags")
	z, err3 := copal.OpenSortedSet[string](db, "points")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if !after {
		_, err := s.Add("red", "blue")
		return errors.Join(err, h.Set("a", 1), l.PushBack([]byte("one"), []byte("two"), []byte("three")), z.Set("ada", 1.5))
	}
	_, err1 = s.Delete("red")
	_, _, err2 = l.PopFront()
	return errors.Join(err1, err2, h.SetAll(map[string]int{"a": 2, "b": 2}), l.PushBack([]byte("four")), z.SetAll(map[string]float64{"ada": 3, "bob": 4}))
}
