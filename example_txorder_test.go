package copal_test

import (
	"fmt"
	"iter"
	"log"

	"github.com/copaldb/copal"
)

// inClass calls f in a transaction that has a map of names to years of birth, in order, from which it has taken Alan and to which it has added Edsger.
func inClass(f func(tx *copal.Tx, born *copal.TxMap[string, int])) {
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

func ExampleTxMap_Ascend() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		printAll(born.Ascend("B"))
	})
	// Output:
	// Edsger 1930
	// Grace 1906
}

func ExampleTxMap_Descend() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		printAll(born.Descend("F"))
	})
	// Output:
	// Edsger 1930
	// Ada 1815
}

func ExampleTxMap_After() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		printAll(born.After("Ada"))
	})
	// Output:
	// Edsger 1930
	// Grace 1906
}

func ExampleTxMap_Before() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		printAll(born.Before("Edsger"))
	})
	// Output:
	// Ada 1815
}

func ExampleTxMap_Between() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		printAll(born.Between("Ada", "Grace"))
	})
	// Output:
	// Ada 1815
	// Edsger 1930
}

func ExampleTxMap_Backward() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		printAll(born.Backward())
	})
	// Output:
	// Grace 1906
	// Edsger 1930
	// Ada 1815
}

func ExampleTxMap_Prefix() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		printAll(born.Prefix("A"))
	})
	// Output:
	// Ada 1815
}

func ExampleTxMap_First() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		fmt.Println(born.First())
	})
	// Output:
	// Ada 1815 true
}

func ExampleTxMap_Last() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		fmt.Println(born.Last())
	})
	// Output:
	// Grace 1906 true
}

func ExampleTxMap_KeysFrom() {
	inClass(func(_ *copal.Tx, born *copal.TxMap[string, int]) {
		for name := range born.KeysFrom("B") {
			fmt.Println(name)
		}
	})
	// Output:
	// Edsger
	// Grace
}

func ExampleTx_ScanRange() {
	inClass(func(tx *copal.Tx, _ *copal.TxMap[string, int]) {
		for key, value := range tx.ScanRange([]byte("born:B"), nil) {
			fmt.Println(string(key), string(value))
		}
	})
	// Output:
	// born:Edsger 1930
	// born:Grace 1906
}

func ExampleTx_ScanBackward() {
	inClass(func(tx *copal.Tx, _ *copal.TxMap[string, int]) {
		for key, value := range tx.ScanBackward(nil, []byte("born:Grace")) {
			fmt.Println(string(key), string(value))
		}
	})
	// Output:
	// born:Edsger 1930
	// born:Ada 1815
}
