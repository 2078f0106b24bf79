package redisapi

import "net"

// lender is a connection with a buffer for the first bytes of a request, which a waiter borrows.
type lender struct {
	nc       net.Conn
	borrow   func() []byte
	giveBack func()
}
