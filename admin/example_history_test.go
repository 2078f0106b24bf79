package admin_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

func ExampleHistory() {
	db, err := copal.OpenMemory(copal.WithHistory(7 * 24 * time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	copal.Set(db, "answer", 42) // the window begins with the first write

	w, ok := admin.History(db)
	fmt.Println(w.Seq, w.Keep, ok)
	// Output: 0 168h0m0s true
}

// Without a write, an option of Open is nothing that the store would remember.
func ExampleBeginHistory() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))
	db, _ := copal.Open(dir, copal.WithHistory(copal.Forever))
	fmt.Println(admin.BeginHistory(db), db.Close())

	db, _ = copal.Open(dir)
	defer db.Close()
	w, _ := admin.History(db)
	fmt.Println(w.Keep == copal.Forever)
	// Output:
	// <nil> <nil>
	// true
}

// A map that was dropped is there at the moment before.
func ExampleMaps() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, _ := copal.OpenMap[string, int](db, "users")
	users.Set("alice", 28)
	before, _ := db.Snapshot()
	defer before.Close()
	db.Drop("users")

	was, err := db.AsOfSeq(before.Seq())
	if err != nil {
		log.Fatal(err)
	}
	defer was.Close()
	for name, n := range admin.Maps(was) {
		fmt.Println(name, n)
	}
	// Output: users 1
}

func ExampleRestoreAsOf() {
	dir, ctx := tempDir(), context.Background()
	defer os.RemoveAll(filepath.Dir(dir))
	db, _ := copal.Open(dir)
	copal.Set(db, "answer", 42)
	before, _ := db.Snapshot()
	copal.Set(db, "answer", 24) // a slip of the finger
	before.Close()
	db.Close()

	_, err := admin.RestoreAsOf(ctx, dir, dir+".then", before.Seq(), nil)
	if err != nil {
		log.Fatal(err)
	}
	then, _ := copal.Open(dir + ".then")
	defer then.Close()
	fmt.Println(copal.Load[int](then, "answer"))
	// Output: 42 <nil>
}

func ExampleBackupAsOf() {
	dir, ctx := tempDir(), context.Background()
	defer os.RemoveAll(filepath.Dir(dir))
	db, _ := copal.Open(dir)
	defer db.Close()
	copal.Set(db, "answer", 42)
	before, _ := db.Snapshot()
	defer before.Close()
	copal.Set(db, "answer", 24)

	_, err := admin.BackupAsOf(ctx, db, before.Seq(), dir+".backup", nil)
	if err != nil {
		log.Fatal(err)
	}
	backup, _ := copal.Open(dir+".backup", copal.ReadOnly())
	defer backup.Close()
	fmt.Println(copal.Load[int](backup, "answer"))
	// Output: 42 <nil>
}
