package resp

import (
	"bytes"
	"slices"
	"strconv"
)

// Limits bound one request.
type Limits struct {
	Args int // elements of a request

	// Grows is asked before the parser takes memory for many arguments, with the bytes that it has
	// then; nil allows all. Its error is returned by Next.
	Grows func(bytes int) error

	Bulk int // bytes of an argument
}

// MaxInline is the longest inline command, and the longest line with a length, in bytes.
const MaxInline = 64 << 10

// ProtocolError is the error of a malformed request. The connection cannot go on, because the
// beginning of the next request is unknown.
type ProtocolError string

func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

// Parser reads requests from a buffer to which bytes are added as they arrive. It remembers how far
// it has come in a request that is not all there, so that a long one is not read from its beginning
// with each piece. The zero Parser is at the beginning of a request.
type Parser struct {
	Limits

	at     int // bytes of the request that have been read
	left   int // arguments that are still to come
	bulk   int // the length of the argument that is being read, -1 before its length is known
	inside bool
	line   bool // the last request was an inline command
	spans  []span
	args   [][]byte
	inline []byte // the arguments of an inline command without their quotes
}

type span struct{ from, to int }

// Next reads a request from the beginning of buf. Until all of it is there, n is 0, and buf has to
// begin with the same bytes in the next call. Otherwise the request takes the first n bytes. args is
// nil for an empty request, which has no reply. The arguments are parts of buf, and as the
// slice itself they are the caller's until the next call. The error is a ProtocolError.
func (p *Parser) Next(buf []byte) (args [][]byte, n int, err error) {
	if !p.inside {
		if len(buf) == 0 {
			return nil, 0, nil
		}
		if p.line = buf[0] != '*'; p.line {
			return p.nextInline(buf)
		}
		count, ok, err := p.number(buf, "too big mbulk count string", "invalid multibulk length")
		switch {
		case !ok || err != nil:
			return nil, 0, err
		case count > int64(p.Args):
			return nil, 0, ProtocolError("invalid multibulk length")
		case count <= 0:
			return nil, p.end(), nil
		}
		p.inside, p.left, p.bulk, p.spans = true, int(count), -1, p.spans[:0]
	}
	for p.left > 0 {
		if p.bulk < 0 {
			if p.at == len(buf) {
				return nil, 0, nil
			}
			if c := buf[p.at]; c != '$' {
				return nil, 0, ProtocolError("expected '$', got '" + printable(c) + "'")
			}
			length, ok, err := p.number(buf, "too big bulk count string", "invalid bulk length")
			switch {
			case !ok || err != nil:
				return nil, 0, err
			case length < 0 || length > int64(p.Bulk):
				return nil, 0, ProtocolError("invalid bulk length")
			}
			p.bulk = int(length)
		}
		if len(buf)-p.at < p.bulk+2 {
			return nil, 0, nil
		}
		if len(p.spans) == cap(p.spans) {
			if err := p.grow(); err != nil {
				return nil, 0, err
			}
		}
		p.spans = append(p.spans, span{p.at, p.at + p.bulk})
		p.at += p.bulk + 2 // the two bytes are not checked, as in Redis
		p.bulk = -1
		p.left--
	}
	if len(p.spans) > cap(p.args) && len(p.spans) > fewArguments && p.Limits.Grows != nil {
		if err := p.Limits.Grows(24*len(p.spans) + 16*cap(p.spans)); err != nil {
			return nil, 0, err
		}
	}
	args = slices.Grow(p.args[:0], len(p.spans))
	for _, s := range p.spans {
		args = append(args, buf[s.from:s.to:s.to])
	}
	p.args = args
	return args, p.end(), nil
}

// grow makes room for more arguments.
func (p *Parser) grow() error {
	n := max(16, 2*cap(p.spans))
	if n > fewArguments && p.Limits.Grows != nil {
		if err := p.Limits.Grows(24*cap(p.args) + 16*n); err != nil {
			return err
		}
	}
	p.spans = append(make([]span, 0, n), p.spans...)
	return nil
}

// Wants returns the number of bytes for which the buffer should have room, when Next needs more: at
// least one more than it has, and as many as the present argument takes, if its length is known.
func (p *Parser) Wants(have int) int {
	if p.inside && p.bulk > 0 {
		return max(have+1, p.at+p.bulk+2)
	}
	return have + 1
}

// Held returns the bytes that the parser keeps for a request with many arguments, and 0 for one
// with few.
func (p *Parser) Held() int {
	if cap(p.args)+cap(p.spans) <= 2*fewArguments {
		return 0
	}
	return 24*cap(p.args) + 16*cap(p.spans)
}

// fewArguments is for how many the memory is kept.
const fewArguments = 1024

// Forget gives back the memory of a request with many arguments.
func (p *Parser) Forget() {
	if p.Held() > 0 {
		p.args, p.spans = nil, nil
	}
	if cap(p.inline) > fewArguments {
		p.inline = nil
	}
}

// end ends the request, and returns its length.
func (p *Parser) end() int {
	n := p.at
	p.at, p.inside = 0, false
	return n
}

// number reads the line that begins at p.at, of a type and a number. ok is false while the line
// is not all there.
func (p *Parser) number(buf []byte, long, bad ProtocolError) (v int64, ok bool, err error) {
	line := buf[p.at:]
	end := bytes.IndexByte(line[:min(len(line), MaxInline)], '\r')
	switch {
	case end < 0 && len(line) >= MaxInline:
		return 0, false, long
	case end < 0 || end+1 >= len(line):
		return 0, false, nil
	}
	v, ok = ParseInt(line[1:end])
	if !ok {
		return 0, false, bad
	}
	p.at += end + 2
	return v, true, nil
}

// Inline reports whether the last request of Next was an inline command: a line of words.
func (p *Parser) Inline() bool { return p.line }

// ErrBinary is the error of a first byte that neither a command nor text begins with. Redis waits
// for the end of a line there. At the beginning of TLS and other binary protocols, a third party
// chooses some bytes, and a line of a command may be among them.
const ErrBinary ProtocolError = "a request begins with a byte that is no text"

// nextInline reads a request that is a line of words, as a person types it.
func (p *Parser) nextInline(buf []byte) (args [][]byte, n int, err error) {
	if c := buf[0]; c > '~' || c < ' ' && c != '\t' && c != '\r' && c != '\n' {
		return nil, 0, ErrBinary
	}
	from := p.at // nothing before it ends the line
	end := bytes.IndexByte(buf[from:], '\n')
	if end < 0 {
		if len(buf) >= MaxInline {
			return nil, 0, ProtocolError("too big inline request")
		}
		p.at = len(buf)
		return nil, 0, nil
	}
	end += from
	p.at = end + 1
	n = p.end()
	if end > MaxInline {
		return nil, 0, ProtocolError("too big inline request")
	}
	args, ok := p.words(bytes.TrimSuffix(buf[:end], []byte("\r")))
	if !ok {
		return nil, 0, ProtocolError("unbalanced quotes in request")
	}
	if len(args) == 0 {
		return nil, n, nil
	}
	return args, n, nil
}

// words splits a line as Redis does: at spaces, with 'single' and "double" quotes, of which the
// double ones know \n \r \t \b \a \xhh and take any other byte after \ literally.
func (p *Parser) words(line []byte) (args [][]byte, ok bool) {
	p.spans = p.spans[:0]
	text := p.inline[:0]
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			break
		}
		from := len(text)
		if text, i, ok = word(text, line, i); !ok {
			return nil, false
		}
		p.spans = append(p.spans, span{from, len(text)})
	}
	args = p.args[:0]
	for _, s := range p.spans {
		args = append(args, text[s.from:s.to:s.to])
	}
	p.inline, p.args = text, args
	return args, true
}

// word appends the word of line that begins at i, and returns where it ends.
func word(text, line []byte, i int) ([]byte, int, bool) {
	for i < len(line) && !isSpace(line[i]) {
		switch quote := line[i]; quote {
		case '"', '\'':
			end, ok := i+1, false
			if text, end, ok = quoted(text, line, end, quote); !ok {
				return nil, 0, false
			}
			if end < len(line) && !isSpace(line[end]) { // a quote ends its word
				return nil, 0, false
			}
			return text, end, true
		default:
			text = append(text, quote)
			i++
		}
	}
	return text, i, true
}

// quoted appends the text in quotes from i on, and returns the place of the next byte.
func quoted(text, line []byte, i int, quote byte) ([]byte, int, bool) {
	for ; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			return text, i + 1, true
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
			text = append(text, '\'')
		case c == '\\' && quote == '"' && i+1 < len(line):
			if i+3 < len(line) && line[i+1] == 'x' {
				if v, err := strconv.ParseUint(string(line[i+2:i+4]), 16, 8); err == nil {
					text = append(text, byte(v))
					i += 3
					continue
				}
			}
			i++
			text = append(text, unescaped(line[i]))
		default:
			text = append(text, c)
		}
	}
	return nil, 0, false
}

func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' || c == 0 }

func printable(c byte) string {
	if c < ' ' || c > '~' {
		return strconv.QuoteToASCII(string(rune(c)))[1:2] + "x" + strconv.FormatUint(uint64(c), 16)
	}
	return string(rune(c))
}

// ParseInt reads a number of 64 bits in the one form that Redis takes: no sign but -, no leading
// zero, no space.
func ParseInt(b []byte) (v int64, ok bool) {
	digits := b
	negative := len(b) > 1 && b[0] == '-'
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && (len(digits) > 1 || negative) {
		return 0, false
	}
	var u uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}
