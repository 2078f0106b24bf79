package copal_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/copaldb/copal"
)

func ExampleWithFileMode() {
	dir, err := os.MkdirTemp("", "copal-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	// A group of operators reads the store and makes backups.
	db, err := copal.Open(filepath.Join(dir, "app.db"), copal.WithFileMode(0o640))
	if err != nil {
		log.Fatal(err)
	}
	if err := copal.Set(db, "visits", 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Close())
	// Output: <nil>
}
