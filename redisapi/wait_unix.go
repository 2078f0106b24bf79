//go:build unix

package redisapi

import (
	"errors"
	"io"
	"syscall"
)

// waiter reads the first bytes of a request. A client that waits for them has no buffer: it gets one
// when there is something to read.
type waiter struct {
	lender
	raw syscall.RawConn // nil for connections that are not sockets, such as TLS
	try func(fd uintptr) bool
	put func(fd uintptr) bool
	out []byte
	n   int
	err error
}

func (w *waiter) of(l lender) {
	w.lender = l
	sc, ok := l.nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	w.raw = raw
	w.try = func(fd uintptr) bool {
		room := w.borrow()
		for {
			w.n, w.err = syscall.Read(int(fd), room)
			if !errors.Is(w.err, syscall.EINTR) {
				break
			}
		}
		if errors.Is(w.err, syscall.EAGAIN) {
			w.giveBack()
			return false // come again when the socket is ready
		}
		return true
	}
	w.put = func(fd uintptr) bool {
		for {
			w.n, w.err = syscall.Write(int(fd), w.out)
			if !errors.Is(w.err, syscall.EINTR) {
				return true
			}
		}
	}
}

// write writes as much as the connection takes at once. A connection that is no socket takes nothing.
func (w *waiter) write(b []byte) (n int, err error) {
	if w.raw == nil {
		return 0, nil
	}
	w.out, w.n, w.err = b, 0, nil
	err = w.raw.Write(w.put)
	if w.out = nil; err != nil {
		return 0, err
	}
	if errors.Is(w.err, syscall.EAGAIN) {
		return 0, nil
	}
	return max(w.n, 0), w.err
}

// ended reports whether the other side has closed its end, and all that it has sent was read.
func (w *waiter) ended() (yes bool) {
	if w.raw == nil {
		return false
	}
	err := w.raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		yes = n <= 0 && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return yes || err != nil
}

func (w *waiter) read() (n int, err error) {
	if w.raw == nil {
		return w.nc.Read(w.borrow())
	}
	w.n, w.err = 0, nil
	switch err := w.raw.Read(w.try); {
	case err != nil:
		return 0, err
	case w.n <= 0 && w.err == nil:
		return 0, io.EOF
	}
	return w.n, w.err
}
