// Package access says who may come through the doors of a store, and which maps each may read and write there.
//
//	users, err := access.New(access.User{Name: "dashboard", Tokens: []string{access.Hash(token)}, Read: []string{"orders"}})
//	http.Handle("/", httpapi.Handler(db, httpapi.WithAccess(users)))
//
// Package httpapi and package redisapi ask it alike. A store that a program opens by itself asks nobody.
package access
