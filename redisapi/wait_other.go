//go:build !unix

package redisapi

// waiter reads the first bytes of a request. Here a client that waits for them keeps its buffers.
type waiter struct{}

func (w *waiter) of(*client) {}

// write writes nothing: here the connection takes no more at once than otherwise.
func (w *waiter) write([]byte) (n int, err error) { return 0, nil }

func (w *waiter) ended() bool { return false }

func (w *waiter) read(c *client) (n int, err error) {
	c.borrow()
	return c.nc.Read(c.in[:cap(c.in)])
}
