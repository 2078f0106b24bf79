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
	db.Put([]byte("b"), []byte("2"))
	db.Put([]byte("a"), []byte("1"))

	for key, value := range db.Scan(nil) { // begins at once, however many there are
		fmt.Printf("%s %s\n", key, value)
	}
	// Output:
	// a 1
	// b 2
}

func ExampleMap_IsOrdered() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	a, _ := copal.OpenMap[string, int](db, "a")
	b, _ := copal.OpenMap[string, int](db, "b", copal.Ordered())

	fmt.Println(a.IsOrdered(), b.IsOrdered())
	// Output: false true
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

func ExampleMap_Ascend() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.Ascend("c") {
		fmt.Println(name)
	}
	// Output:
	// cherry
	// date
	// fig
}

func ExampleMap_Descend() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.Descend("banana") {
		fmt.Println(name)
	}
	// Output:
	// banana
	// apricot
	// apple
}

func ExampleMap_After() {
	db, fruits := fruits()
	defer db.Close()
	last := "" // before all others
	for page := 1; page <= 2; page++ {
		n := 0
		for name := range fruits.After(last) {
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

func ExampleMap_Before() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.Before("banana") {
		fmt.Println(name)
	}
	// Output:
	// apricot
	// apple
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
	for name := range fruits.Backward() {
		fmt.Println(name)
		break
	}
	// Output: fig
}

func ExampleMap_First() {
	db, fruits := fruits()
	defer db.Close()
	fmt.Println(fruits.First())
	// Output: apple 2 true
}

func ExampleMap_Last() {
	db, fruits := fruits()
	defer db.Close()
	fmt.Println(fruits.Last())
	// Output: fig 0 true
}

func ExampleMap_KeysFrom() {
	db, fruits := fruits()
	defer db.Close()
	for name := range fruits.KeysFrom("d") { // no value is read
		fmt.Println(name)
	}
	// Output:
	// date
	// fig
}

func ExampleDB_ScanRange() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for _, key := range []string{"c", "a", "b"} {
		db.Put([]byte(key), []byte("entry "+key))
	}
	for key, value := range db.ScanRange([]byte("a"), []byte("c")) { // without c
		fmt.Printf("%s: %s\n", key, value)
	}
	// Output:
	// a: entry a
	// b: entry b
}

func ExampleDB_ScanRangeKeys() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for _, key := range []string{"c", "a", "b"} {
		db.Put([]byte(key), nil)
	}
	for key := range db.ScanRangeKeys([]byte("b"), nil) { // nil: no bound
		fmt.Printf("%s\n", key)
	}
	// Output:
	// b
	// c
}

func ExampleDB_ScanBackward() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for _, key := range []string{"c", "a", "b"} {
		db.Put([]byte(key), nil)
	}
	for key := range db.ScanBackward(nil, []byte("c")) {
		fmt.Printf("%s\n", key)
	}
	// Output:
	// b
	// a
}

func ExampleDB_ScanBackwardKeys() {
	db, _ := copal.OpenMemory()
	defer db.Close()
	for _, key := range []string{"c", "a", "b"} {
		db.Put([]byte(key), nil)
	}
	for key := range db.ScanBackwardKeys([]byte("b"), nil) {
		fmt.Printf("%s\n", key)
	}
	// Output:
	// c
	// b
}
