package importers

import (
	"bufio"
	"fmt"
	"io"
)

// maxLine bounds the memory for one line.
const maxLine = 1 << 30

// lines reads a file line by line, and keeps the position of each.
type lines struct {
	in     *bufio.Reader
	number int64 // of the line that was read last, from 1
	at     int64 // its offset
	next   int64 // the offset after it
	text   []byte
	back   bool
	torn   bool // it has no line feed: the file ends in it
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, 64<<10)} }

// read reads a line, without its line feed. It is valid until the next call. The error is io.EOF
// after the last.
func (l *lines) read() ([]byte, error) {
	if l.back {
		l.back = false
		return l.text, nil
	}
	l.text, l.at, l.torn = l.text[:0], l.next, false
	for {
		b, err := l.in.ReadSlice('\n')
		l.text = append(l.text, b...)
		l.next += int64(len(b))
		switch {
		case err == bufio.ErrBufferFull && len(l.text) < maxLine:
			continue
		case err == bufio.ErrBufferFull:
			return nil, fmt.Errorf("line %d, at byte %d, has more than %d bytes", l.number+1, l.at, maxLine)
		case err == io.EOF && len(l.text) > 0:
			l.torn = true
		case err != nil:
			return nil, err
		}
		break
	}
	l.number++
	if !l.torn {
		l.text = l.text[:len(l.text)-1]
	}
	return l.text, nil
}

// last reports whether nothing follows the line.
func (l *lines) last() bool {
	_, err := l.in.Peek(1)
	return err != nil
}
