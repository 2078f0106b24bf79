package copal_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/copaldb/copal"
)

func ExampleDB_Backup() {
	base, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	db, err := copal.Open(filepath.Join(base, "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx, dir := context.Background(), filepath.Join(base, "backup")

	if err := copal.Set(db, "greeting", "hello"); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Backup(ctx, dir, nil); err != nil {
		log.Fatal(err)
	}
	if err := copal.Set(db, "greeting", "goodbye"); err != nil {
		log.Fatal(err)
	}

	backup, err := copal.Open(dir, copal.ReadOnly())
	if err != nil {
		log.Fatal(err)
	}
	defer backup.Close()
	fmt.Println(copal.Load[string](backup, "greeting"))
	// Output: hello <nil>
}

func ExampleDB_Compact() {
	m := sessions()
	for age := range 100 {
		m.Set("7f3a", User{"Alice", age})
	}
	if err := m.DB().Compact(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	// Three records are left: the entry, the name of its map, the schema of its type.
	fmt.Println(m.DB().Stats().Records)
	// Output: 3
}

func ExampleBackupReport() {
	dir := tempDir()
	db, _ := copal.OpenMemory()
	defer db.Close()
	db.Raw().Set([]byte("k"), []byte("v"))
	report, err := db.Backup(context.Background(), dir, nil)
	fmt.Println(report.Bytes == report.Linked+report.Copied, err)
	// Output: true <nil>
}

func ExampleDB_Refresh() {
	dir, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := copal.Set(db, "greeting", "hello"); err != nil {
		log.Fatal(err)
	}

	follower, err := copal.Open(dir, copal.ReadOnly()) // in another process, as a rule
	if err != nil {
		log.Fatal(err)
	}
	defer follower.Close()
	if err := copal.Set(db, "greeting", "goodbye"); err != nil {
		log.Fatal(err)
	}
	if err := follower.Refresh(); err != nil { // without it, the same a moment later
		log.Fatal(err)
	}
	fmt.Println(copal.Load[string](follower, "greeting"))
	// Output: goodbye <nil>
}

func ExampleWithFollowInterval() {
	dir, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	follower, err := copal.Open(dir, copal.ReadOnly(), copal.WithFollowInterval(5*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer follower.Close()
	_, err = copal.Open(dir, copal.ReadOnly(), copal.WithFollowInterval(0))
	fmt.Println(err)
	// Output: copal: WithFollowInterval(0s); it must be positive
}
