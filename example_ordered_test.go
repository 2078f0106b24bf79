package copal_test

import (
	"fmt"

	"github.com/copaldb/copal"
)

func ExampleOrdered() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	scores, _ := copal.OpenMap[int, string](db, "scores", copal.Ordered())
	for _, n := range []int{100, 9, -1, 20} {
		scores.Set(n, fmt.Sprint(n, " points"))
	}

	for n, text := range scores.All() { // by value, not by decimals
		fmt.Println(n, text)
	}
	// Output:
	// -1 -1 points
	// 9 9 points
	// 20 20 points
	// 100 100 points
}

func ExampleOrderedKeys() {
	db, _ := copal.OpenMemory(copal.OrderedKeys())
	defer db.Close()
	db.Raw().Set([]byte("b"), []byte("2"))
	db.Raw().Set([]byte("a"), []byte("1"))

	for key, value := range db.Raw().Prefix(nil) { // begins at once, however many there are
		fmt.Printf("%s %s\n", key, value)
	}
	// Output:
	// a 1
	// b 2
}

// fruits is a map to go through.
func fruits() (*copal.DB, *copal.Map[string, int]) {
	db, _ := copal.OpenMemory()
	m, _ := copal.OpenMap[string, int](db, "fruits", copal.Ordered())
	for i, name := range []string{"fig", "date", "apple", "cherry", "banana", "apricot"} {
		m.Set(name, i)
	}
	return db, m
}

func ExampleMap_From() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.From("c") {
		fmt.Println(name)
	}
	// Output:
	// cherry
	// date
	// fig
}

func ExampleMap_Backward_until() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.Backward().Until("cherry") {
		fmt.Println(name)
	}
	// Output:
	// banana
	// apricot
	// apple
}

// A list is shown page by page from the last key of each page on.
func ExampleMap_From_pages() {
	db, fruits := fruits()
	defer db.Close()
	last := "" // before all others
	for page := 1; page <= 2; page++ {
		n := 0
		for name := range fruits.From(last) {
			if name == last {
				continue
			}
			fmt.Println(page, name)
			last = name
			if n++; n == 2 {
				break
			}
		}
	}
	// Output:
	// 1 apple
	// 1 apricot
	// 2 banana
	// 2 cherry
}

func ExampleMap_Between() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.Between("banana", "date") {
		fmt.Println(name)
	}
	// Output:
	// banana
	// cherry
}

func ExampleMap_Prefix() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.Prefix("ap") {
		fmt.Println(name)
	}
	// Output:
	// apple
	// apricot
}

func ExampleMap_Backward() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.Backward().All() {
		fmt.Println(name)
		break
	}
	// Output: fig
}

func ExampleMap_KeysBetween() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.KeysBetween("d", "g") { // no value is read
		fmt.Println(name)
	}
	// Output:
	// date
	// fig
}

func ExampleRaw_Between() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for _, key := range []string{"c", "a", "b"} {
		db.Raw().Set([]byte(key), []byte("entry "+key))
	}
	for key, value := range db.Raw().Between([]byte("a"), []byte("c")) { // without c
		fmt.Printf("%s: %s\n", key, value)
	}
	// Output:
	// a: entry a
	// b: entry b
}

func ExampleRaw_KeysBetween() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for _, key := range []string{"c", "a", "b"} {
		db.Raw().Set([]byte(key), nil)
	}
	for key := range db.Raw().KeysBetween([]byte("b"), nil) { // nil: no bound
		fmt.Printf("%s\n", key)
	}
	// Output:
	// b
	// c
}

func ExampleRaw_Backward() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for _, key := range []string{"c", "a", "b"} {
		db.Raw().Set([]byte(key), nil)
	}
	for key := range db.Raw().Backward().Between(nil, []byte("c")) {
		fmt.Printf("%s\n", key)
	}
	// Output:
	// b
	// a
}

func ExampleRaw_Backward_keys() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for _, key := range []string{"c", "a", "b"} {
		db.Raw().Set([]byte(key), nil)
	}
	for key := range db.Raw().Backward().KeysBetween([]byte("b"), nil) {
		fmt.Printf("%s\n", key)
	}
	// Output:
	// c
	// b
}
