package admin_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

func ExampleRepair() {
	base, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	dir, into := filepath.Join(base, "app.db"), filepath.Join(base, "mended.db")

	db, err := copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"alice", "bob", "carol"} {
		if err := copal.Set(db, name, len(name)); err != nil {
			log.Fatal(err)
		}
	}
	db.Close()

	// The disk garbles a byte of the second value.
	log1 := filepath.Join(dir, "00000001.log")
	text, err := os.ReadFile(log1)
	if err != nil {
		log.Fatal(err)
	}
	for i := range text {
		if string(text[i:i+3]) == "bob" {
			text[i] = 'r'
			break
		}
	}
	if err := os.WriteFile(log1, text, 0o666); err != nil {
		log.Fatal(err)
	}

	report, err := admin.Repair(context.Background(), dir, into, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Lost[0].Reason)

	db, err = copal.Open(into)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for key := range db.Raw().Keys() {
		fmt.Println(string(key))
	}
	// Output:
	// the checksum does not match
	// alice
	// carol
}

func ExampleRepairInPlace() {
	base := tempDir()
	defer os.RemoveAll(filepath.Dir(base))
	db, err := copal.Open(base)
	if err != nil {
		log.Fatal(err)
	}
	copal.Set(db, "answer", 42)
	db.Close()
	if err := os.Remove(filepath.Join(base, "MANIFEST")); err != nil {
		log.Fatal(err)
	}

	report, damaged, err := admin.RepairInPlace(context.Background(), base, nil)
	fmt.Println(report.Saved, filepath.Ext(damaged), err)

	db, _ = copal.Open(base)
	defer db.Close()
	fmt.Println(copal.Load[int](db, "answer"))
	// Output:
	// 2 .damaged <nil>
	// 42 <nil>
}

func ExampleRepairDryRun() {
	dir, err := os.MkdirTemp("", "copal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := copal.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	db.Raw().Set([]byte("alice"), []byte("28"))
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	report, err := admin.RepairDryRun(context.Background(), dir, nil)
	fmt.Println(report, err)
	// Output: 1 of 1 intact records saved, 0 bytes lost in 0 places <nil>
}

func ExampleRepairReport_String() {
	report := admin.RepairReport{Intact: 1000, Saved: 998, Grouped: 2, Lost: []admin.Loss{{File: "app.db/00000001.log", Offset: 94, Bytes: 128}}}
	fmt.Println(report)
	// Output:
	// 998 of 1000 intact records saved, 128 bytes lost in 1 places, 2 records left out whose transaction is not whole
}
