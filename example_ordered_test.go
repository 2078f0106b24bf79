package copal_test

import (
	"fmt"

	"github.com/copaldb/copal"
)

func ExampleMap_DeleteRange() {
	db, fruits := fruits()
	defer db.Close()
	if err := fruits.DeleteRange("b", "e"); err != nil {
		fmt.Println(err)
	}
	for name := range fruits.Keys() {
		fmt.Println(name)
	}
	// Output:
	// apple
	// apricot
	// fig
}

func ExampleDB_Drop() {
	db, fruits := fruits()
	defer db.Close()
	fmt.Println(db.Drop("fruits"))
	fruits.Close()
	fmt.Println(db.Drop("fruits"))
	counts, err := copal.OpenMap[int, int](db, "fruits") // a map with other types
	fmt.Println(err, counts.Len())
	// Output:
	// copal: map "fruits" is open: close it before it is dropped
	// <nil>
	// <nil> 0
}

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
	for name, number := range fruits.Between("banana", "date") { // without date
		fmt.Println(name, number)
	}
	for name := range fruits.KeysBetween("date", "g") {
		fmt.Println(name)
	}
	// Output:
	// banana 4
	// cherry 3
	// date
	// fig
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
