package copal_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal"
)

func ExampleDB_Compact() {
	m := sessions()
	for age := range 100 {
		m.Set("7f3a", User{"Alice", age})
	}
	if err := m.DB().Compact(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	// What is left: the entry, the name of its map, the schema of its type.
	fmt.Println(m.DB().Stats().Records)
	// Output: 3
}

func ExampleDB_Compact_progress() {
	m := sessions()
	for age := range 100 {
		m.Set("7f3a", User{"Alice", age})
	}
	left := int64(-1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := m.DB().Compact(ctx, func(done, total int64) { left = total - done })
	fmt.Println(err, left)
	// Output: <nil> 0
}

func ExampleWithAutoCompact() {
	// Once in ten minutes, if there are more than two records for each entry.
	db, err := copal.OpenMemory(copal.WithAutoCompact(10*time.Minute, 2.0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Close())

	_, err = copal.OpenMemory(copal.WithAutoCompact(10*time.Minute, 0.5))
	fmt.Println(err)
	// Output:
	// <nil>
	// copal: WithAutoCompact(10m0s, 0.5); the time must be positive, and the ratio at least 1
}

func ExampleWithHistory() {
	db, err := copal.OpenMemory(copal.WithHistory(7 * 24 * time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for i := range 5 {
		db.Raw().Set([]byte("price"), fmt.Append(nil, i)) // each of them stays in the log
	}
	fmt.Println(db.Stats().Records)
	// Output: 5
}

// The window is what both options keep.
func ExampleWithHistoryBytes() {
	db, err := copal.OpenMemory(copal.WithHistory(7*24*time.Hour), copal.WithHistoryBytes(10<<30))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Close())

	_, err = copal.OpenMemory(copal.WithHistoryBytes(-1))
	fmt.Println(err)
	// Output:
	// <nil>
	// copal: WithHistoryBytes(-1); it must not be negative
}
