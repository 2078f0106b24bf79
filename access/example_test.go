package access_test

import (
	"fmt"
	"log"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
)

func Example() {
	users, err := access.New(
		access.User{Name: "shop", Tokens: []string{access.Hash("its token")}, Read: []string{"users"}, Write: []string{"orders"}},
		access.Password("of who may do everything"))
	if err != nil {
		log.Fatal(err)
	}
	shop := users.Find("shop", "its token")
	fmt.Println(shop.MayRead(copal.MapPrefix("users")), shop.MayWrite(copal.MapPrefix("users")), shop.MayWrite([]byte("orders:1")))
	fmt.Println(users.Find("shop", "another"))
	// Output:
	// true false true
	// <nil>
}
