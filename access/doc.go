// Package access is the list of users that the servers of a store admit, and of the maps that each
// may read and write.
//
//	users, err := access.New(access.User{Name: "dashboard", Tokens: []string{access.Hash(token)}, Read: []string{"orders"}})
//	http.Handle("/", httpapi.Handler(db, httpapi.WithAccess(users)))
//
// Packages httpapi and redisapi use it in the same way. A store that a program opens itself has no
// users.
package access
