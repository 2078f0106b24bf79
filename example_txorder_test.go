package copal_test

import (
	"fmt"
	"iter"
	"log"

	"github.com/copaldb/copal"
)

// inClass calls f in a transaction that has a map of names to years of birth, in order, from which it has taken
// Alan and to which it has added Edsger.
func inClass(f func(tx *copal.Tx, born *copal.Map[string, int])) {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	m, err := copal.OpenMap[string, int](db, "born", copal.Ordered())
	if err != nil {
		log.Fatal(err)
	}
	for name, year := range map[string]int{"Ada": 1815, "Alan": 1912, "Grace": 1906} {
		if err := m.Set(name, year); err != nil {
			log.Fatal(err)
		}
	}
	err = db.Update(func(tx *copal.Tx) error {
		born := m.In(tx)
		if _, err := born.Delete("Alan"); err != nil {
			return err
		}
		if err := born.Set("Edsger", 1930); err != nil {
			return err
		}
		f(tx, born)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

func printAll(list iter.Seq2[string, int]) {
	for name, year := range list {
		fmt.Println(name, year)
	}
}

func ExampleMap_In_ascend() {
	inClass(func(_ *copal.Tx, born *copal.Map[string, int]) {
		printAll(born.From("B"))
	})
	// Output:
	// Edsger 1930
	// Grace 1906
}

func ExampleMap_In_backward() {
	inClass(func(_ *copal.Tx, born *copal.Map[string, int]) {
		printAll(born.Backward().Until("F"))
	})
	// Output:
	// Edsger 1930
	// Ada 1815
}

func ExampleMap_In_before() {
	inClass(func(_ *copal.Tx, born *copal.Map[string, int]) {
		printAll(born.Backward().Until("Edsger"))
	})
	// Output:
	// Ada 1815
}

func ExampleMap_In_between() {
	inClass(func(_ *copal.Tx, born *copal.Map[string, int]) {
		printAll(born.Between("Ada", "Grace"))
	})
	// Output:
	// Ada 1815
	// Edsger 1930
}

func ExampleMap_In_backwardalso() {
	inClass(func(_ *copal.Tx, born *copal.Map[string, int]) {
		printAll(born.Backward().All())
	})
	// Output:
	// Grace 1906
	// Edsger 1930
	// Ada 1815
}

func ExampleMap_In_prefix() {
	inClass(func(_ *copal.Tx, born *copal.Map[string, int]) {
		printAll(born.Prefix("A"))
	})
	// Output:
	// Ada 1815
}

func ExampleMap_In_last() {
	inClass(func(_ *copal.Tx, born *copal.Map[string, int]) {
		for name, year := range born.Backward().All() {
			fmt.Println(name, year)
			break
		}
	})
	// Output:
	// Grace 1906
}

func ExampleMap_In_keysBetween() {
	inClass(func(_ *copal.Tx, born *copal.Map[string, int]) {
		for name := range born.KeysBetween("B", "H") {
			fmt.Println(name)
		}
	})
	// Output:
	// Edsger
	// Grace
}

func ExampleTx_Raw_scanRange() {
	inClass(func(tx *copal.Tx, _ *copal.Map[string, int]) {
		for key, value := range tx.Raw().Between([]byte("born:B"), nil) {
			fmt.Println(string(key), string(value))
		}
	})
	// Output:
	// born:Edsger 1930
	// born:Grace 1906
}

func ExampleTx_Raw_scanBackward() {
	inClass(func(tx *copal.Tx, _ *copal.Map[string, int]) {
		for key, value := range tx.Raw().Backward().Between(nil, []byte("born:Grace")) {
			fmt.Println(string(key), string(value))
		}
	})
	// Output:
	// born:Edsger 1930
	// born:Ada 1815
}
