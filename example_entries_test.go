package copal_test

import (
	"fmt"
	"log"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

func ExampleSnapshot_Entries() {
	from, err := copal.OpenMemory(copal.WithCodec(codec.Binary))
	if err != nil {
		log.Fatal(err)
	}
	defer from.Close()
	users, err := copal.OpenMap[string, User](from, "users")
	if err != nil {
		log.Fatal(err)
	}
	users.Set("alice", User{"Alice", 28})
	from.Put([]byte("greeting"), []byte("hello"))
	s, err := from.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	to, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer to.Close()
	for e, err := range s.Entries(nil, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s codec %q type %q\n", e.Key, e.Codec, e.Schema)
		if err := to.PutEntry(&e); err != nil {
			log.Fatal(err)
		}
	}
	moved, err := copal.OpenMap[string, User](to, "users")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(moved.Get("alice"))
	// Output:
	// greeting codec "" type ""
	// users:alice codec "binary" type "struct{Name string; Age int}"
	// {Alice 28} true
}

func ExampleDB_PutEntry() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	// Two fields as package codec's Binary encodes them, from a file of which the schema is known.
	err = db.PutEntry(&copal.Entry{Key: []byte("users:bob"), Value: []byte("\x03Bob\x3e"), Codec: "binary", Schema: "struct{Name string; Age int}"})
	shown, _ := db.Get([]byte("users:bob"))
	fmt.Println(string(shown), err)
	// Output: {"Name":"Bob","Age":31} <nil>
}

func ExampleBatch_PutEntry() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	b := db.NewBatch()
	for _, name := range []string{"alice", "bob"} {
		if err := b.PutEntry(&copal.Entry{Key: append(copal.MapPrefix("users"), name...), Value: []byte(`{"Name":"` + name + `"}`)}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(b.Write(), db.Len())
	// Output: <nil> 2
}

func ExampleMapPrefix() {
	fmt.Printf("%s\n", copal.MapPrefix("users"))
	fmt.Printf("%s\n", copal.MapPrefix("a:b"))
	// Output:
	// users:
	// a%3ab:
}

func ExampleDB_DeclareMap() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.Put([]byte("users:alice"), []byte("{}"))
	fmt.Println(db.Maps())
	fmt.Println(db.DeclareMap("users"), db.Maps()[0].Name)
	// Output:
	// []
	// <nil> users
}

func ExampleSnapshot_Elements() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	h, err := copal.OpenHash[string, int](db, "stock")
	if err != nil {
		log.Fatal(err)
	}
	h.Set("pears", 4)
	h.Set("apples", 3)
	s, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for e, err := range s.Entries(nil, nil) {
		fmt.Printf("%s: %s of %d %v\n", e.Key, e.Collection, e.Elements, err)
		for el, err := range s.Elements(e.Key) {
			fmt.Printf("%s %s as %s %s %v\n", el.Name, el.Value, el.Codec, el.Schema, err)
		}
	}
	// Output:
	// stock: hash of 2 <nil>
	// apples 3 as json int <nil>
	// pears 4 as json int <nil>
}

func ExampleDB_PutElements() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.PutElements(&copal.Entry{Key: []byte("stock"), Collection: "hash"}, []copal.Element{
		{Name: []byte("apples"), Value: []byte("3"), Codec: "json", Schema: "int"},
	}, true)
	if err != nil {
		log.Fatal(err)
	}
	h, err := copal.OpenHash[string, int](db, "stock")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Get("apples"))
	// Output: 3 true
}
