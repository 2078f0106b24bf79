//go:build !unix

package redisapi

// waiter reads the first bytes of a request. Here a client that waits for them keeps its buffers.
type waiter struct{ lender }

func (w *waiter) of(l lender) { w.lender = l }

// write writes nothing: here the goroutine of the outbox sends all replies.
func (w *waiter) write([]byte) (n int, err error) { return 0, nil }

func (w *waiter) ended() bool { return false }

func (w *waiter) read() (n int, err error) { return w.nc.Read(w.borrow()) }
