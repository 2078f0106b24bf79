package ndjson

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/jsontext"
)

// Kind is the kind of a line.
type Kind int

// The kinds.
const (
	Entry   Kind = iota // an entry, with all lines of its value; of a collection its elements follow
	Element             // an element of the collection
	Map                 // there is a map with this name
	Begin               // the state of a store follows
	End                 // that was all
	noted               // nothing to the caller
)

// Line is one line, or several that belong together, as a Reader returns them.
type Line struct {
	Kind    Kind
	Entry   admin.Entry // its Key and Value are the caller's
	Element admin.Element
	Map     string
}

// LineError is the error of a bad line.
type LineError struct {
	Line   int64 // from 1
	Offset int64 // of its first byte
	Reason string
	Last   bool // nothing follows it: it may have been cut
}

func (e *LineError) Error() string {
	return fmt.Sprintf("line %d, at byte %d: %s", e.Line, e.Offset, e.Reason)
}

// ErrVersion is a first line that a newer version has written.
var ErrVersion = errors.New("it was written by a newer version")

// ErrLong is a line of more than Reader.MaxBytes.
var ErrLong = errors.New("it is too long")

// Reader reads lines. With Loose set it takes entries without the first and the last line of an
// export, and with empty lines between them.
type Reader struct {
	Loose bool

	MaxBytes int64 // the longest line and the longest value; 0 is 1 GiB

	in   *bufio.Reader
	line []byte // the line that was read last, without its line feed
	back bool   // it must be read again
	torn bool   // it has no line feed
	from int64  // where it begins
	at   State
	good State  // after the last good line
	sum  uint32 // the checksum of all before the line
	key  []byte
	err  error
	any  bool // there was a first line
	left bool // parts of a value follow that is given up
	lost bool // elements of a collection follow that is given up

	open int64  // elements that must follow
	coll []byte // the key of their collection
}

// NewReader reads r from its beginning.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// State returns the place after the last good line, with the declarations up to there.
func (r *Reader) State() State {
	s := r.good
	s.Key = bytes.Clone(s.Key)
	return s
}

// Line is the number of the line that was read last, from 1.
func (r *Reader) Line() int64 { return r.at.Lines }

func (r *Reader) most() int64 {
	if r.MaxBytes > 0 {
		return r.MaxBytes
	}
	return maxLine
}

// Offset is how far the Reader has read.
func (r *Reader) Offset() int64 { return r.at.Offset }

// Next returns the next line. The error is io.EOF at the end, a *LineError for a bad line, after
// which the next call goes on, and any other when it cannot be read.
func (r *Reader) Next() (Line, error) {
	for {
		if err := r.read(); err != nil {
			if err == io.EOF && r.open > 0 {
				missing := r.open
				r.open = 0
				return Line{}, &LineError{Line: r.at.Lines + 1, Offset: r.at.Offset, Last: true, Reason: fmt.Sprintf("%d elements of the collection under key %s are missing", missing, jsontext.Excerpt(r.coll))}
			}
			return Line{}, err
		}
		if r.Loose && len(bytes.TrimSpace(r.line)) == 0 {
			continue
		}
		first, from := r.at.Lines, r.from
		l, err := r.parse()
		switch {
		case err == errLeftOver:
			continue
		case err == nil:
			if !r.torn && r.open == 0 { // otherwise later lines would be on the same line, or within a collection
				r.good = r.at
				r.good.Key = r.key
			}
			if l.Kind == noted {
				continue
			}
			return l, nil
		case r.err != nil && r.err != io.EOF:
			return Line{}, r.err
		}
		e := &LineError{Line: first, Offset: from, Reason: err.Error(), Last: r.last() && r.begins(from) && !errors.Is(err, errChanged)}
		if errors.Is(err, ErrVersion) {
			r.err = ErrVersion
			e.Reason = strings.TrimSuffix(e.Reason, ": "+ErrVersion.Error())
			return Line{}, fmt.Errorf("%v: %w", e, ErrVersion)
		}
		return Line{}, e
	}
}

// errLeftOver is a part of a value of which another is missing. That has been said.
var errLeftOver = errors.New("a part that is left over")

// last reports whether nothing more follows.
func (r *Reader) last() bool {
	if r.back {
		return false
	}
	_, err := r.in.Peek(1)
	return err != nil
}

// begins reports whether the line at an offset may be one that was cut: where it is the first of all, it must
// look like that. A whole line that is none is another kind of file.
func (r *Reader) begins(offset int64) bool {
	return offset > 0 || r.torn && bytes.HasPrefix(bytes.TrimSpace(r.line), []byte("{"))
}

// mark is the byte order mark with which some programs begin UTF-8.
var mark = []byte("\xef\xbb\xbf")

// read reads a line.
func (r *Reader) read() error {
	if r.back {
		r.back = false
		return nil
	}
	if r.err != nil {
		return r.err
	}
	r.from, r.line = r.at.Offset, r.line[:0]
	for {
		b, err := r.in.ReadSlice('\n')
		r.line = append(r.line, b...)
		r.at.Offset += int64(len(b))
		switch {
		case err == bufio.ErrBufferFull && int64(len(r.line)) < r.most():
			continue
		case err == bufio.ErrBufferFull:
			r.err = fmt.Errorf("line %d, at byte %d, of more than %d bytes: %w", r.at.Lines+1, r.from, r.most(), ErrLong)
		case err != nil:
			r.err = err
		}
		break
	}
	if r.err != nil && (r.err != io.EOF || len(r.line) == 0) {
		return r.err
	}
	if r.at.Lines++; r.from == 0 {
		r.line = bytes.TrimPrefix(r.line, mark)
	}
	r.sum, r.at.crc = r.at.crc, crc32.Update(r.at.crc, castagnoli, r.line)
	if r.torn = r.err == io.EOF; !r.torn {
		r.line = r.line[:len(r.line)-1]
	}
	return nil
}

// fields are those of one line. A missing one is nil.
type fields struct {
	copal, version, of, mapName, end, crc       []byte
	key, schema, codec, typ, expires, seq, time []byte
	value, text, base64, bytes, part            []byte
	collection, elements, element, content      []byte
}

func (f *fields) slot(name string) *[]byte {
	switch name {
	case "key":
		return &f.key
	case "value":
		return &f.value
	case "text":
		return &f.text
	case "base64":
		return &f.base64
	case "schema":
		return &f.schema
	case "expires":
		return &f.expires
	case "seq":
		return &f.seq
	case "time":
		return &f.time
	case "bytes":
		return &f.bytes
	case "part":
		return &f.part
	case "collection":
		return &f.collection
	case "elements":
		return &f.elements
	case "element":
		return &f.element
	case "content":
		return &f.content
	case "copal":
		return &f.copal
	case "version":
		return &f.version
	case "of":
		return &f.of
	case "map":
		return &f.mapName
	case "codec":
		return &f.codec
	case "type":
		return &f.typ
	case "end":
		return &f.end
	case "crc32c":
		return &f.crc
	}
	return nil
}

func (r *Reader) split() (f fields, err error) {
	err = jsontext.EachField(r.line, func(name string, value []byte) error {
		slot := f.slot(name)
		switch {
		case slot == nil:
			return fmt.Errorf("there is no field %q", name)
		case *slot != nil:
			return fmt.Errorf("two fields %q", name)
		}
		*slot = value
		return nil
	})
	return f, err
}

// only reports whether a line has no fields but these.
func (f *fields) only(of ...*[]byte) error {
	for _, name := range []string{"copal", "version", "of", "map", "end", "crc32c", "key", "schema", "codec", "type", "expires", "seq", "time", "value", "text", "base64", "bytes", "part", "collection", "elements", "element", "content"} {
		if slot := f.slot(name); *slot != nil && !slices.Contains(of, slot) {
			return fmt.Errorf("a field %q in a line that has none", name)
		}
	}
	return nil
}

// parse returns the content of the line.
func (r *Reader) parse() (l Line, err error) {
	f, err := r.split()
	if err != nil {
		return l, err
	}
	r.left = r.left && f.part != nil
	defines := f.schema != nil && f.codec != nil
	r.lost = r.lost && (f.part != nil || f.element != nil || defines)
	switch missing := r.open; {
	case r.left, r.lost && !defines:
		return l, errLeftOver
	case missing > 0 && f.element == nil && !defines:
		r.open, r.back = 0, true
		return l, fmt.Errorf("%d elements of the collection under key %s are missing before it", missing, jsontext.Excerpt(r.coll))
	case f.copal == nil && !r.any && !r.Loose:
		return l, errors.New("the first line is not that of an export")
	case f.copal == nil && r.at.Ended:
		return l, errors.New("it follows the line that says that this is all")
	case f.copal != nil:
		return Line{Kind: Begin}, r.begin(&f)
	case f.key != nil:
		return r.entry(&f)
	case f.mapName != nil:
		name, err := ParseKey(f.mapName)
		return Line{Kind: Map, Map: string(name)}, errors.Join(err, f.only(&f.mapName))
	case f.end != nil:
		return Line{Kind: End}, r.end(&f)
	case f.part != nil:
		return l, errors.New("a part of a value without its entry")
	case f.element != nil:
		return r.element(&f)
	case f.schema == nil:
		return l, errors.New(`there is no field "key"`)
	}
	return Line{Kind: noted}, r.define(&f)
}

func (r *Reader) begin(f *fields) error {
	kind, err := jsontext.Unquote(f.copal)
	if err != nil {
		return err
	}
	switch kind {
	case "export":
		n, err := parseNumber(f.version)
		if err != nil {
			return err
		}
		if n > Version {
			return fmt.Errorf("version %d: %w", n, ErrVersion)
		}
		if n < 1 {
			return errors.New("there is no version 0")
		}
		if r.any && !r.at.Ended {
			return errors.New("an export begins, and the one before has no end")
		}
		// The checksum begins anew with an export that follows another.
		r.at = State{Offset: r.at.Offset, Lines: r.at.Lines, crc: crc32.Update(crc32.Update(0, castagnoli, r.line), castagnoli, []byte{'\n'})}
		r.any = true
	case "continued":
		if !r.any || r.at.Ended {
			return errors.New("there is nothing to continue")
		}
		if f.version != nil {
			return errors.New("a version where none belongs")
		}
	default:
		return fmt.Errorf("it is an %q, not an export", kind)
	}
	r.at.Head = Head{}
	if f.of != nil {
		if r.at.Head.From, err = jsontext.Unquote(f.of); err != nil {
			return err
		}
	}
	seq, err := strconv.ParseUint(string(f.seq), 10, 64)
	if err != nil {
		return errors.New("no sequence number")
	}
	r.at.Head.Seq = seq
	if r.at.Head.Time, err = parseTime(f.time); err != nil {
		return err
	}
	return f.only(&f.copal, &f.version, &f.of, &f.seq, &f.time)
}

// errChanged is a last line that does not fit the lines before it. So one of them was changed,
// which is worse than a file that was cut.
var errChanged = errors.New("what stands before it has been changed: there should be")

func (r *Reader) end(f *fields) error {
	n, err := parseNumber(f.end)
	if err == nil {
		err = f.only(&f.end, &f.crc)
	}
	if err != nil {
		return err
	}
	r.at.Ended = true
	if n != r.at.Entries {
		return fmt.Errorf("%w %d entries, and there are %d", errChanged, n, r.at.Entries)
	}
	if sum := fmt.Sprintf(`"%08x"`, r.sum); string(f.crc) != sum {
		return fmt.Errorf("%w the checksum %s, and it is %s", errChanged, f.crc, sum)
	}
	return nil
}

// mostLost is how many lines of schemas may be missing before one.
const mostLost = 1000

// define notes a schema.
func (r *Reader) define(f *fields) error {
	n, err := parseNumber(f.schema)
	if err == nil {
		err = f.only(&f.schema, &f.codec, &f.typ)
	}
	if err != nil {
		return err
	}
	codec, err := ParseKey(f.codec)
	if err != nil {
		return err
	}
	text, err := ParseKey(f.typ)
	if err != nil {
		return err
	}
	have := int64(len(r.at.schemas))
	if n <= have || n > have+mostLost {
		return fmt.Errorf("schema %d, and the next is %d", n, have+1)
	}
	r.at.schemas = slices.Clip(r.at.schemas) // those of the state before stay
	for ; have < n-1; have++ {
		r.at.schemas = append(r.at.schemas, schema{}) // the line of it was none
	}
	r.at.schemas = append(r.at.schemas, schema{string(codec), string(text)})
	return nil
}

func (r *Reader) entry(f *fields) (l Line, err error) {
	r.lost = f.collection != nil // until it is known to be one
	e := &l.Entry
	if err := f.only(&f.key, &f.schema, &f.expires, &f.seq, &f.time, &f.value, &f.text, &f.base64, &f.bytes, &f.collection, &f.elements, &f.content); err != nil {
		return l, err
	}
	if err := r.describe(e, f); err != nil {
		return l, err
	}
	if f.content != nil {
		if e.Content, err = jsontext.Unquote(f.content); err != nil {
			return l, err
		}
	}
	if f.collection != nil {
		err = r.collection(e, f)
	} else if f.elements != nil {
		err = errors.New("elements of what is no collection")
	} else {
		e.Value, err = r.value(f)
	}
	if err != nil {
		return l, err
	}
	r.lost = false
	if r.open == 0 {
		r.count(e.Key)
	}
	return l, nil
}

// count counts an entry that is whole.
func (r *Reader) count(key []byte) {
	r.at.Entries++
	r.key = append(r.key[:0], key...)
}

// collection reads an entry whose elements follow.
func (r *Reader) collection(e *admin.Entry, f *fields) (err error) {
	if f.value != nil || f.text != nil || f.base64 != nil || f.bytes != nil || f.schema != nil || f.content != nil {
		return errors.New("a collection with a value")
	}
	if e.Collection, err = jsontext.Unquote(f.collection); err != nil {
		return err
	}
	if e.Collection == "" {
		return errors.New("a collection without a type")
	}
	if e.Elements, err = parseNumber(f.elements); err != nil {
		return err
	}
	r.open, r.coll = e.Elements, append(r.coll[:0], e.Key...)
	return nil
}

// element reads an element of the collection before it.
func (r *Reader) element(f *fields) (l Line, err error) {
	l.Kind = Element
	if r.open == 0 {
		r.lost = true
		return l, errors.New("an element without its collection")
	}
	if err := f.only(&f.element, &f.schema, &f.value, &f.text, &f.base64, &f.bytes); err != nil {
		return l, err
	}
	e := &l.Element
	if e.Name, err = ParseKey(f.element); err != nil {
		return l, err
	}
	if e.Codec, e.Schema, err = r.schemaOf(f); err != nil {
		return l, err
	}
	if e.Value, err = r.value(f); err != nil {
		return l, err
	}
	if r.open--; r.open == 0 {
		r.count(r.coll)
	}
	return l, nil
}

// value reads a value, and the lines of it.
func (r *Reader) value(f *fields) ([]byte, error) {
	if f.bytes == nil {
		return f.bytesOf()
	}
	if f.value != nil || f.text != nil || f.base64 != nil {
		return nil, errors.New("a value, and parts of one to follow")
	}
	return r.parts(f.bytes)
}

func (r *Reader) schemaOf(f *fields) (codec, text string, err error) {
	if f.schema == nil {
		return "", "", nil
	}
	n, err := parseNumber(f.schema)
	if err != nil || n < 1 || n > int64(len(r.at.schemas)) || r.at.schemas[n-1] == (schema{}) {
		return "", "", fmt.Errorf("there is no schema %s", jsontext.Excerpt(f.schema))
	}
	s := r.at.schemas[n-1]
	return s.codec, s.text, nil
}

// describe reads an entry without its value.
func (r *Reader) describe(e *admin.Entry, f *fields) (err error) {
	if e.Key, err = ParseKey(f.key); err != nil {
		return err
	}
	if e.Codec, e.Schema, err = r.schemaOf(f); err != nil {
		return err
	}
	if f.expires != nil {
		if e.Expires, err = parseTime(f.expires); err != nil {
			return err
		}
		if e.Expires.UnixMilli() <= 0 {
			return fmt.Errorf("%s is no deadline", jsontext.Excerpt(f.expires))
		}
		e.Expires = time.UnixMilli(e.Expires.UnixMilli())
	}
	if f.seq != nil {
		if e.Seq, err = strconv.ParseUint(string(f.seq), 10, 64); err != nil {
			return fmt.Errorf("%s is no sequence number", jsontext.Excerpt(f.seq))
		}
	}
	if f.time != nil {
		e.Time, err = parseTime(f.time)
	}
	return err
}

// bytesOf returns the value in a line.
func (f *fields) bytesOf() ([]byte, error) {
	n := 0
	for _, form := range [][]byte{f.value, f.text, f.base64} {
		if form != nil {
			n++
		}
	}
	switch {
	case n != 1:
		return nil, errors.New("one of value, text and base64 must be there, and one alone")
	case f.text != nil:
		s, err := jsontext.Unquote(f.text)
		return []byte(s), err
	case f.base64 != nil:
		return parseBase64(f.base64)
	case !json.Valid(f.value):
		return nil, errors.New("the value is not JSON")
	}
	return bytes.Clone(f.value), nil
}

// parts reads the lines of a value.
func (r *Reader) parts(announced []byte) (value []byte, err error) {
	size, err := parseNumber(announced)
	if err != nil || size > r.most() {
		return nil, fmt.Errorf("a value of %s bytes", jsontext.Excerpt(announced))
	}
	defer func() { r.left = err != nil }()
	for n := int64(1); int64(len(value)) < size; n++ {
		if err := r.read(); err != nil {
			return nil, fmt.Errorf("%d of %d bytes of the value are missing", size-int64(len(value)), size)
		}
		b, err := r.part(n)
		if err != nil {
			return nil, fmt.Errorf("in line %d, part %d of the value: %w", r.at.Lines, n, err)
		}
		if len(b) == 0 || int64(len(value)+len(b)) > size {
			return nil, fmt.Errorf("part %d of the value has %d bytes, which is not possible", n, len(b))
		}
		if n == 1 && len(b) > partBytes-utf8.UTFMax { // a Writer's, which is believed
			value = make([]byte, 0, size)
		}
		value = append(value, b...)
	}
	return value, nil
}

// part returns the part in the line. If the line is another kind it is read again.
func (r *Reader) part(n int64) ([]byte, error) {
	f, err := r.split()
	switch {
	case err != nil:
		return nil, err
	case f.part == nil:
		r.back = true
		return nil, errors.New("the part is missing")
	}
	if number, err := parseNumber(f.part); err != nil || number != n {
		return nil, fmt.Errorf("it is part %s", f.part)
	}
	if err := f.only(&f.part, &f.text, &f.base64); err != nil {
		return nil, err
	}
	return f.bytesOf()
}
