package admin_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
)

func ExampleTypes() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	type User struct {
		Name string
		Age  int
	}
	users, err := copal.OpenMap[string, User](db, "users")
	if err != nil {
		log.Fatal(err)
	}
	if err := users.Set("alice", User{"Alice", 28}); err != nil {
		log.Fatal(err)
	}
	types, err := admin.Types(db, "users")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(types)
	// Output: [{json struct{Name string; Age int}}]
}

func ExampleFit() {
	db, err := copal.OpenMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	type user struct {
		Name string
		Age  int8
	}
	users, err := copal.OpenMap[string, user](db, "users", copal.WithCodec(codec.Binary))
	if err != nil {
		log.Fatal(err)
	}
	if err := users.Set("alice", user{"Alice", 28}); err != nil {
		log.Fatal(err)
	}

	e := admin.Entry{Key: []byte("users:bob"), Value: []byte(`{"Name":"Bob","Age":7}`)}
	if err := admin.Fit(db, &e); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %q\n", e.Codec, e.Value)
	if err := admin.Put(db, &e); err != nil {
		log.Fatal(err)
	}
	fmt.Println(users.Get("bob"))

	// A raw handle that does so for each write.
	err = admin.Raw(db, admin.Values{}).Set([]byte("users:bob"), []byte(`{"Name":"Bob","Age":700}`))
	var misfit *admin.MisfitError
	fmt.Println(errors.As(err, &misfit), err)
	// Output:
	// binary, "\x03Bob\a"
	// {Bob 7} true
	// true copal: the type does not fit: key "users:bob": Age is the number 700, not a whole number from -128 to 127
}
