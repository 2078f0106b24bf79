package record

import "fmt"

// Parse reads the head of a record from the beginning of b. It returns the
// length of the head, so that the key begins at b[n] and the whole record is
// Length(n) long. b may end anywhere after the head; when it ends within it, the
// error is ErrShort. Parse does not look at the checksum: until Verify has said
// yes, nothing of h is true.
func Parse(b []byte) (h Head, n int, err error) {
	n, err = h.Parse(b)
	return h, n, err
}

// Parse is the function of this name, for those who read many: a Head is large to be handed about.
func (h *Head) Parse(b []byte) (n int, err error) {
	*h = Head{}
	c := cursor{b: b}
	c.crc()
	c.space()
	h.Op, h.Kind = Op(c.letter('A')), Kind(c.letter('a'))
	h.Space, h.Schema, h.Seq, h.Time = c.field(), c.field(), c.field(), c.field()
	c.space()
	c.attributes(h)
	key := c.hex()
	value := c.field()
	c.space()
	if c.err == nil && (key > MaxKeyBytes || value > MaxInlineBytes || c.i > MaxHeadBytes) {
		c.err = ErrSyntax
	}
	if c.err != nil {
		if c.err == ErrShort && len(b) >= MaxHeadBytes {
			c.err = ErrSyntax
		}
		*h = Head{}
		return 0, c.err
	}
	h.KeyBytes, h.ValueBytes = int(key), int(value)
	return c.i, nil
}

// Length is the length of the whole record, given the length of its head.
func (h *Head) Length(head int) int { return head + h.KeyBytes + 1 + h.ValueBytes + 1 }

// Verify checks the whole record b, which Parse has found to have the given head,
// and returns its key and value, which alias b. ErrNewer comes only with an intact checksum.
func (s Salt) Verify(b []byte, offset int64, h *Head, head int) (key, value []byte, err error) {
	if len(b) != h.Length(head) {
		return nil, nil, ErrShort
	}
	if len(b) < 8 || !isCRC(b, s.checksum(b, offset)) {
		return nil, nil, ErrChecksum
	}
	return Split(b, h, head)
}

// Split is Verify for a record whose checksum is known to be right.
func Split(b []byte, h *Head, head int) (key, value []byte, err error) {
	if len(b) != h.Length(head) {
		return nil, nil, ErrShort
	}
	key, value = b[head:head+h.KeyBytes:head+h.KeyBytes], b[head+h.KeyBytes+1:len(b)-1:len(b)-1]
	if b[head+h.KeyBytes] != ' ' || b[len(b)-1] != '\n' {
		return nil, nil, ErrSyntax
	}
	if err := h.understood(); err != nil {
		return nil, nil, err
	}
	return key, value, nil
}

// understood refuses attributes that this version must not skip.
func (h *Head) understood() error {
	switch h.Op {
	case Set, Delete, Part, Commit, Range:
	case Expire:
		if h.Expiry == 0 {
			return fmt.Errorf("%w: the end of an entry without a deadline", ErrSyntax)
		}
	default:
		return fmt.Errorf("%w: operation %c", ErrNewer, h.Op)
	}
	switch h.Kind {
	case Value, Meta, Element, Schema, System:
	default:
		return fmt.Errorf("%w: kind %c", ErrNewer, h.Kind)
	}
	for i := 0; i+1 < len(h.Other); i++ {
		if h.Other[i] == ' ' && h.Other[i+1] <= 'Z' {
			return fmt.Errorf("%w: attribute %c", ErrNewer, h.Other[i+1])
		}
	}
	return nil
}

// cursor reads a head from left to right; after the first error it does not move.
type cursor struct {
	b   []byte
	i   int
	err error
}

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// peek returns the next byte, or 0 when there is none or an error has occurred.
func (c *cursor) peek() byte {
	if c.err != nil {
		return 0
	}
	if c.i >= len(c.b) {
		c.err = ErrShort
		return 0
	}
	return c.b[c.i]
}

func (c *cursor) space() {
	if c.peek() != ' ' {
		c.fail(ErrSyntax)
		return
	}
	c.i++
}

// crc passes over the digits of the checksum.
func (c *cursor) crc() {
	if b := c.b; len(b) >= 8 && unhex[b[0]]|unhex[b[1]]|unhex[b[2]]|unhex[b[3]]|unhex[b[4]]|unhex[b[5]]|unhex[b[6]]|unhex[b[7]] <= 15 {
		c.i = 8
		return
	}
	for c.i < 8 {
		if unhex[c.peek()] > 15 {
			c.fail(ErrSyntax)
			return
		}
		c.i++
	}
}

// letter reads one letter of the alphabet that begins at first.
func (c *cursor) letter(first byte) byte {
	l := c.peek()
	if l < first || l > first+25 {
		c.fail(ErrSyntax)
		return 0
	}
	c.i++
	return l
}

func (c *cursor) field() uint64 {
	c.space()
	return c.hex()
}

// hex reads a number in its one spelling.
func (c *cursor) hex() (v uint64) {
	if c.err != nil {
		return 0
	}
	number := c.b[c.i:]
	n := 0
	for _, b := range number {
		d := unhex[b]
		if d > 15 {
			break
		}
		v = v<<4 | uint64(d)
		n++
	}
	c.i += n
	switch {
	case n > 16 || n > 1 && number[0] == '0':
		c.err = ErrSyntax // even when the bytes end here
	case n == len(number):
		c.err = ErrShort
	case n == 0:
		c.err = ErrSyntax
	}
	return v
}

// attributes reads tagged attributes, each with the space that follows it, up to the key's length.
func (c *cursor) attributes(h *Head) {
	indexed := false
	for last := byte(0); ; {
		tag := c.peek()
		if c.err != nil || unhex[tag] <= 15 {
			break
		}
		if tag <= last || !(tag >= 'A' && tag <= 'Z' || tag >= 'g' && tag <= 'z') {
			c.fail(ErrSyntax)
			break
		}
		last = tag
		indexed = indexed || tag == 'I'
		c.i++
		c.attribute(tag, h)
		c.space()
	}
	if isPart := h.Op == Part; c.err == nil && (isPart != indexed || isPart != (h.Owner != 0)) {
		c.fail(ErrSyntax)
	}
}

func (c *cursor) attribute(tag byte, h *Head) {
	switch tag {
	case 'G':
		h.Group = c.nonzero()
	case 'I':
		h.Index = c.hex()
	case 'L':
		h.Large = c.nonzero()
	case 'V':
		h.Owner = c.nonzero()
	case 'X':
		h.Expiry = c.nonzero()
	case 't':
		h.Type = c.text()
	default:
		h.Other += " " + string(tag) + c.text()
	}
}

func (c *cursor) nonzero() uint64 {
	v := c.hex()
	if v == 0 {
		c.fail(ErrSyntax)
	}
	return v
}

// text reads printable ASCII up to the next space.
func (c *cursor) text() string {
	start := c.i
	for b := c.peek(); b > ' ' && b < 0x7f; b = c.peek() {
		c.i++
	}
	n := c.i - start
	if n > maxTextAttr || c.err == nil && n == 0 {
		c.err = ErrSyntax
	}
	if c.err != nil {
		return ""
	}
	return string(c.b[start:c.i])
}
