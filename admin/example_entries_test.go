package admin_test

import (
	"fmt"
	"log"
	"maps"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
)

func ExampleEntries() {
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
	from.Raw().Set([]byte("greeting"), []byte("hello"))
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
	for e, err := range admin.Entries(s, nil, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s codec %q type %q\n", e.Key, e.Codec, e.Schema)
		if err := admin.Put(to, &e); err != nil {
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

func ExamplePut() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	// Two fields as package codec's Binary encodes them, from a file of which the schema is known.
	err = admin.Put(db, &admin.Entry{Key: []byte("users:bob"), Value: []byte("\x03Bob\x3e"), Codec: "binary", Schema: "struct{Name string; Age int}"})
	shown, _ := db.Raw().Load([]byte("users:bob"))
	fmt.Println(string(shown), err)
	// Output: {"Name":"Bob","Age":31} <nil>
}

func ExamplePut_together() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	var list []*admin.Entry
	for _, name := range []string{"alice", "bob"} {
		list = append(list, &admin.Entry{Key: append(copal.MapPrefix("users"), name...), Value: []byte(`{"Name":"` + name + `"}`)})
	}
	fmt.Println(admin.Put(db, list...), db.Raw().Len())
	// Output: <nil> 2
}

func ExampleDeclareMap() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.Raw().Set([]byte("users:alice"), []byte("{}"))
	fmt.Println(maps.Collect(db.Maps()))
	fmt.Println(admin.DeclareMap(db, "users"), maps.Collect(db.Maps()))
	// Output:
	// map[]
	// <nil> map[users:1]
}

func ExampleElements() {
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
	for e, err := range admin.Entries(s, nil, nil) {
		fmt.Printf("%s: %s of %d %v\n", e.Key, e.Collection, e.Elements, err)
		for el, err := range admin.Elements(s, e.Key) {
			fmt.Printf("%s %s as %s %s %v\n", el.Name, el.Value, el.Codec, el.Schema, err)
		}
	}
	// Output:
	// stock: hash of 2 <nil>
	// apples 3 as json int <nil>
	// pears 4 as json int <nil>
}

func ExamplePutElements() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = admin.PutElements(db, &admin.Entry{Key: []byte("stock"), Collection: "hash"}, []admin.Element{
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

func ExampleKeys() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, key := range []string{"log:3", "log:1", "users:alice", "log:2"} {
		db.Raw().Set([]byte(key), nil)
	}
	for key, err := range admin.Keys(db, admin.Selection{Prefix: []byte("log:"), To: []byte("log:3"), Backward: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(key))
	}
	// Output:
	// log:2
	// log:1
}
