package resp

import (
	"bufio"
	"io"
	"strconv"
)

// AppendRequest appends a request as a client writes it.
func AppendRequest(dst []byte, args ...string) []byte {
	dst = append(strconv.AppendInt(append(dst, '*'), int64(len(args)), 10), "\r\n"...)
	for _, a := range args {
		dst = append(strconv.AppendInt(append(dst, '$'), int64(len(a)), 10), "\r\n"...)
		dst = append(append(dst, a...), "\r\n"...)
	}
	return dst
}

// ErrorReply is a reply that is an error.
type ErrorReply string

func (e ErrorReply) Error() string { return string(e) }

// ReadReply reads a reply of version 2 of the protocol: an int64, a []byte for a string of either
// kind, nil where there is none, an ErrorReply or a []any of replies. The error is the error of r,
// io.ErrUnexpectedEOF amid a reply, or a ProtocolError. Memory is taken as the bytes arrive,
// whatever lengths the server names.
func ReadReply(r *bufio.Reader) (any, error) { return readReply(r, 0) }

// deepest is the deepest nesting of arrays.
const deepest = 8

func readReply(r *bufio.Reader, depth int) (any, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull:
		return nil, ProtocolError("too long a line")
	case err == io.EOF && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return nil, ProtocolError("a reply without an end")
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return append([]byte{}, text...), nil
	case '-':
		return ErrorReply(text), nil
	}
	n, ok := ParseInt(text)
	switch {
	case !ok || n < -1 && kind != ':':
		return nil, ProtocolError("a reply without a number")
	case kind == ':':
		return n, nil
	case n < 0 && (kind == '$' || kind == '*'):
		return nil, nil
	case kind == '$':
		return readBulk(r, n)
	case kind == '*' && depth < deepest:
		return readArray(r, n, depth)
	}
	return nil, ProtocolError("a reply of an unknown type")
}

func readBulk(r *bufio.Reader, n int64) (any, error) {
	const step = 64 << 10
	b := make([]byte, 0, min(n, step))
	for {
		have := len(b)
		if int64(have) == n {
			break
		}
		if have == cap(b) {
			b = append(make([]byte, 0, min(n, 2*int64(have))), b...)
		}
		m, err := io.ReadFull(r, b[have:cap(b)])
		if b = b[:have+m]; err != nil {
			return nil, unexpected(err)
		}
	}
	var end [2]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return nil, unexpected(err)
	}
	if end != [2]byte{'\r', '\n'} {
		return nil, ProtocolError("a string without an end")
	}
	return b, nil
}

func readArray(r *bufio.Reader, n int64, depth int) (any, error) {
	list := []any{}
	for range n {
		e, err := readReply(r, depth+1)
		if err != nil {
			return nil, unexpected(err)
		}
		list = append(list, e)
	}
	return list, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
