package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

func ExampleCheck() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))
	db, _ := copal.Open(dir)
	copal.Set(db, "greeting", "hello")
	db.Close()

	report, err := admin.Check(context.Background(), dir, nil)
	fmt.Println(report, err)

	// One bit of the value changes.
	path := report.Segments[0].File
	text, _ := os.ReadFile(path)
	text[len(text)-3] ^= 1
	os.WriteFile(path, text, 0o666)

	report, err = admin.Check(context.Background(), dir, nil)
	fmt.Println(len(report.Problems), errors.Is(err, copal.ErrCorrupt))
	// Output:
	// 2 records in 1 segments, 1 keys, 0 problems <nil>
	// 1 true
}

func ExampleCheck_progress() {
	dir := tempDir()
	defer os.RemoveAll(filepath.Dir(dir))
	db, _ := copal.Open(dir)
	copal.Set(db, "greeting", "hello")
	db.Close()

	_, err := admin.Check(context.Background(), dir, func(done, total int64) {
		if done > total {
			fmt.Println("never")
		}
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleReport_String() {
	fmt.Println(admin.Report{Records: 180, Keys: 100, TornBytes: 17})
	// Output: 180 records in 0 segments, 100 keys, 17 bytes of a torn tail, 0 problems
}

func ExampleRestore() {
	base, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	ctx, backup, into := context.Background(), filepath.Join(base, "backup"), filepath.Join(base, "again.db")
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := copal.Set(db, "answer", 42); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Backup(ctx, backup, nil); err != nil {
		log.Fatal(err)
	}

	if _, err := admin.Restore(ctx, backup, into, nil); err != nil {
		log.Fatal(err)
	}
	again, err := copal.Open(into)
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close()
	fmt.Println(copal.Load[int](again, "answer"))
	// Output: 42 <nil>
}

// tempDir is the place of a store.
func tempDir() string {
	dir, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "app.db")
}

// User is the type of the values in the examples.
type User struct {
	Name string
	Age  int
}
