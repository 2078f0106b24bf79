package admin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

func ExampleDiff() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	raw := db.Raw()
	raw.Set([]byte("pear"), []byte("3"))
	raw.Set([]byte("plum"), []byte("5"))
	before, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer before.Close()
	raw.Set([]byte("pear"), []byte("4"))
	raw.Delete([]byte("plum"))
	raw.Set([]byte("quince"), []byte("1"))
	after, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer after.Close()
	for d, err := range admin.Diff(before, after, nil, nil) {
		switch {
		case err != nil:
			log.Fatal(err)
		case d.A == nil:
			fmt.Printf("+ %s %s\n", d.Key, d.B.Value)
		case d.B == nil:
			fmt.Printf("- %s %s\n", d.Key, d.A.Value)
		default:
			fmt.Printf("~ %s %s, was %s\n", d.Key, d.B.Value, d.A.Value)
		}
	}
	// Output:
	// ~ pear 4, was 3
	// - plum 5
	// + quince 1
}

func ExampleDiffElements() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	queue := db.Raw().List([]byte("queue"))
	queue.PushBack([]byte("one"), []byte("two"))
	before, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer before.Close()
	queue.PopFront()
	queue.PushBack([]byte("three"))
	after, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer after.Close()
	for e, err := range admin.DiffElements(before, after, []byte("queue")) {
		switch {
		case err != nil:
			log.Fatal(err)
		case e.B == nil:
			fmt.Printf("- [%d] %s\n", e.AtA, e.A.Value)
		case e.A == nil:
			fmt.Printf("+ [%d] %s\n", e.AtB, e.B.Value)
		}
	}
	// Output:
	// - [0] one
	// + [1] three
}

// The entries that a loop has overwritten come back, and a later write stays.
func ExampleUndo() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	raw := db.Raw()
	raw.Set([]byte("pear"), []byte("3"))
	raw.Set([]byte("plum"), []byte("5"))
	before, err := db.Snapshot() // or db.AsOf, long after
	if err != nil {
		log.Fatal(err)
	}
	defer before.Close()
	for _, key := range []string{"pear", "plum"} {
		raw.Set([]byte(key), []byte("0"))
	}
	after, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer after.Close()
	raw.Set([]byte("plum"), []byte("6"))

	report, err := admin.Undo(context.Background(), db, before, after, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	for key, value := range raw.All() {
		fmt.Printf("%s %s\n", key, value)
	}
	fmt.Printf("%d as before, left: %s\n", report.Restored, report.Changed)
	// Output:
	// pear 3
	// plum 6
	// 1 as before, left: [plum]
}

func ExampleChanges() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	before, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer before.Close()
	for _, key := range []string{"pear", "plum", "pear"} {
		db.Raw().Set([]byte(key), nil)
	}
	after, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer after.Close()
	of, err := admin.Changes(context.Background(), db, before, after, nil, nil)
	fmt.Println(of([]byte("pear")), of([]byte("plum")), of([]byte("quince")), err)
	// Output: 2 1 0 <nil>
}
