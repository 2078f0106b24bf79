package copal_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

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

func ExampleDB_Backup_progress() {
	dir, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := copal.OpenMemory() // a store in memory can be kept, too
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Raw().Set([]byte("key"), make([]byte, 1000)); err != nil {
		log.Fatal(err)
	}
	whole := false
	_, err = db.Backup(context.Background(), filepath.Join(dir, "backup"), func(done, total int64) { whole = done == total })
	fmt.Println(whole, err)
	// Output: true <nil>
}
