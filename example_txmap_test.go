package copal_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

// agesForTx is a store with a map of two entries.
func agesForTx() (*copal.DB, *copal.Map[string, int]) {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	ages, err := copal.OpenMap[string, int](db, "ages")
	if err == nil {
		err = errors.Join(ages.Set("alice", 28), ages.Set("bob", 35))
	}
	if err != nil {
		log.Fatal(err)
	}
	return db, ages
}

func ExampleDB_UpdateFSync() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.UpdateFSync(func(tx *copal.Tx) error {
		return ages.In(tx).Set("carol", 41)
	})
	fmt.Println(err)
	age, ok := ages.Get("carol")
	fmt.Println(age, ok)
	// Output:
	// <nil>
	// 41 true
}

func ExampleDB_View() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		m := ages.In(tx)
		alice, _ := m.Get("alice")
		bob, _ := m.Get("bob")
		fmt.Println(alice, bob) // as they were at one moment
		return nil
	})
	fmt.Println(err)
	// Output:
	// 28 35
	// <nil>
}

func ExampleTx_Raw_load() {
	db, _ := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		text, err := tx.Raw().Load([]byte("ages:alice"))
		fmt.Printf("%s\n", text)
		return err
	})
	fmt.Println(err)
	// Output:
	// 28
	// <nil>
}

func ExampleTx_Raw_has() {
	db, _ := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		has, err := kit.Has(tx.Raw(), []byte("ages:nobody"))
		fmt.Println(has)
		return err
	})
	fmt.Println(err)
	// Output:
	// false
	// <nil>
}

func ExampleTx_Raw_put() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		if err := tx.Raw().Set([]byte("ages:carol"), []byte("41")); err != nil {
			return err
		}
		return tx.Raw().Set([]byte("newest"), []byte("carol"))
	})
	fmt.Println(err)
	age, ok := ages.Get("carol")
	fmt.Println(age, ok)
	// Output:
	// <nil>
	// 41 true
}

func ExampleTx_Raw_delete() {
	db, _ := agesForTx()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		existed, err := tx.Raw().Delete([]byte("ages:alice"))
		fmt.Println(existed)
		return err
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleTx_Raw_all() {
	db, _ := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		for key, value := range tx.Raw().Prefix([]byte("ages:")) {
			fmt.Printf("%s=%s\n", key, value)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// ages:alice=28
	// ages:bob=35
	// <nil>
}

func ExampleMap_In_get() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		age, ok := ages.In(tx).Get("alice")
		fmt.Println(age, ok)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 28 true
	// <nil>
}

func ExampleMap_In_load() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		_, err := ages.In(tx).Load("nobody")
		fmt.Println(errors.Is(err, copal.ErrNotFound))
		return nil
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleMap_In_has() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		fmt.Println(ages.In(tx).Has("alice"))
		return nil
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleMap_In_set() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		m := ages.In(tx)
		age, _ := m.Get("alice")
		return m.Set("carol", age+13)
	})
	fmt.Println(err)
	age, ok := ages.Get("carol")
	fmt.Println(age, ok)
	// Output:
	// <nil>
	// 41 true
}

func ExampleMap_In_setTTL() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		return ages.In(tx).SetTTL("carol", 41, time.Hour)
	})
	fmt.Println(err)
	age, ok := ages.Get("carol")
	fmt.Println(age, ok)
	// Output:
	// <nil>
	// 41 true
}

func ExampleMap_In_tTL() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		left, err := ages.In(tx).TTL("alice")
		fmt.Println(left)
		return err
	})
	fmt.Println(err)
	// Output:
	// 0s
	// <nil>
}

func ExampleMap_In_delete() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		existed, err := ages.In(tx).Delete("alice")
		fmt.Println(existed)
		return err
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleMap_In_len() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		fmt.Println(ages.In(tx).Len())
		return nil
	})
	fmt.Println(err)
	// Output:
	// 2
	// <nil>
}

func ExampleMap_In_all() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		m := ages.In(tx)
		for name, age := range m.All() {
			if err := m.Set(name, age+1); err != nil {
				return err
			}
		}
		alice, _ := m.Get("alice")
		bob, _ := m.Get("bob")
		fmt.Println(alice, bob)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 29 36
	// <nil>
}

func ExampleMap_In_keys() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		n := 0
		for range ages.In(tx).Keys() {
			n++
		}
		fmt.Println(n)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 2
	// <nil>
}

func ExampleMap_In_values() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.View(func(tx *copal.Tx) error {
		sum := 0
		for age := range ages.In(tx).Values() {
			sum += age
		}
		fmt.Println(sum)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 63
	// <nil>
}

func ExampleMap_In() {
	db, ages := agesForTx()
	defer db.Close()
	err := db.Update(func(tx *copal.Tx) error {
		return errors.Join(ages.In(tx).Set("carol", 41), tx.Raw().Set([]byte("newest"), []byte("carol"))) // both, or none
	})
	fmt.Println(err, ages.Len())
	// Output:
	// <nil> 3
}
