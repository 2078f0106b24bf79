package ndjson

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/jsontext"
)

// Writer writes entries as lines, each in one Write. After an error it is of no more use.
type Writer struct {
	w   io.Writer
	buf []byte
	at  State

	open int64 // elements that must follow
	key  []byte

	Seq bool // let each entry say its number in the log, and since when it is there
}

// NewWriter writes the first line.
func NewWriter(w io.Writer, head Head) (*Writer, error) {
	out := &Writer{w: w}
	out.buf = append(out.buf, `{"copal":"export","version":`...)
	out.buf = strconv.AppendInt(out.buf, Version, 10)
	out.head(head)
	return out, out.write()
}

// ContinueWriter continues at the place at. The lines that follow have the state of head.
func ContinueWriter(w io.Writer, at State, head Head) (*Writer, error) {
	out := &Writer{w: w, at: at}
	out.at.schemas, out.at.Ended = slices.Clone(at.schemas), false
	out.buf = append(out.buf, `{"copal":"continued"`...)
	out.head(head)
	return out, out.write()
}

func (w *Writer) head(h Head) {
	w.at.Head = h
	w.buf = strconv.AppendUint(append(w.buf, `,"seq":`...), h.Seq, 10)
	w.buf = AppendTime(append(w.buf, `,"time":`...), h.Time)
	if h.From != "" {
		w.buf = jsontext.AppendString(append(w.buf, `,"of":`...), h.From)
	}
	w.buf = append(w.buf, '}')
}

// State returns the place of the next line.
func (w *Writer) State() State { return w.at }

// Map says that there is a map with this name.
func (w *Writer) Map(name string) error {
	w.buf = append(appendName(append(w.buf, `{"map":`...), []byte(name)), '}')
	return w.write()
}

// Entry writes an entry, and before it its schema if that is new. After one with a collection its
// elements must follow.
func (w *Writer) Entry(e *admin.Entry) error {
	if err := w.begin(e); err != nil {
		return err
	}
	if e.Collection == "" {
		return w.end(w.value(e.Value))
	}
	w.buf = jsontext.AppendString(append(w.buf, `,"collection":`...), e.Collection)
	w.buf = strconv.AppendInt(append(w.buf, `,"elements":`...), e.Elements, 10)
	w.buf = append(w.buf, '}')
	w.open = e.Elements
	return w.end(w.write())
}

// Long is Entry with the value from r. It holds a part of the value at a time.
func (w *Writer) Long(e *admin.Entry, r io.Reader, size int64) error {
	if err := w.begin(e); err != nil {
		return err
	}
	return w.end(w.parts(r, size))
}

// begin begins the line of an entry.
func (w *Writer) begin(e *admin.Entry) error {
	if err := w.closed(); err != nil {
		return err
	}
	number, err := w.schema(schema{e.Codec, e.Schema})
	if err != nil {
		return err
	}
	w.buf = appendName(append(w.buf, `{"key":`...), e.Key)
	if number > 0 {
		w.buf = strconv.AppendInt(append(w.buf, `,"schema":`...), int64(number), 10)
	}
	if e.Content != "" {
		w.buf = jsontext.AppendString(append(w.buf, `,"content":`...), e.Content)
	}
	if !e.Expires.IsZero() {
		w.buf = AppendTime(append(w.buf, `,"expires":`...), e.Expires)
	}
	if w.Seq {
		w.buf = strconv.AppendUint(append(w.buf, `,"seq":`...), e.Seq, 10)
		w.buf = AppendTime(append(w.buf, `,"time":`...), e.Time)
	}
	w.key = append(w.key[:0], e.Key...)
	return nil
}

// end counts an entry that is whole.
func (w *Writer) end(err error) error {
	if err == nil && w.open == 0 {
		w.count()
	}
	return err
}

// closed returns an error if elements are missing.
func (w *Writer) closed() error {
	if w.open > 0 {
		return fmt.Errorf("of the collection under key %q there are %d elements less than it says it has", w.key, w.open)
	}
	return nil
}

// count counts an entry that is whole.
func (w *Writer) count() {
	w.at.Entries++
	w.at.Key = append(w.at.Key[:0], w.key...)
}

// Element writes an element of the collection that was written last.
func (w *Writer) Element(e *admin.Element) error {
	if w.open == 0 {
		return fmt.Errorf("of the collection under key %q there are more elements than it says it has", w.key)
	}
	number, err := w.schema(schema{e.Codec, e.Schema})
	if err != nil {
		return err
	}
	w.buf = appendName(append(w.buf, `{"element":`...), e.Name)
	if number > 0 {
		w.buf = strconv.AppendInt(append(w.buf, `,"schema":`...), int64(number), 10)
	}
	if err = w.value(e.Value); err == nil {
		if w.open--; w.open == 0 {
			w.count()
		}
	}
	return err
}

// value ends the line with a value, which may take more lines.
func (w *Writer) value(value []byte) error {
	if len(value) > partBytes {
		return w.parts(bytes.NewReader(value), int64(len(value)))
	}
	w.buf = append(AppendValue(append(w.buf, ','), value), '}')
	return w.write()
}

// schema returns the number of a schema, which gets a line when it is new.
func (w *Writer) schema(s schema) (int, error) {
	if s == (schema{}) {
		return 0, nil
	}
	if i := slices.Index(w.at.schemas, s); i >= 0 {
		return i + 1, nil
	}
	w.at.schemas = append(w.at.schemas, s)
	n := len(w.at.schemas)
	w.buf = strconv.AppendInt(append(w.buf, `{"schema":`...), int64(n), 10)
	w.buf = appendName(append(w.buf, `,"codec":`...), []byte(s.codec))
	w.buf = appendName(append(w.buf, `,"type":`...), []byte(s.text))
	w.buf = append(w.buf, '}')
	return n, w.write()
}

// parts ends the line with the length of a value, and writes lines of it after that.
func (w *Writer) parts(r io.Reader, size int64) error {
	w.buf = append(strconv.AppendInt(append(w.buf, `,"bytes":`...), size, 10), '}')
	if err := w.write(); err != nil {
		return err
	}
	piece := make([]byte, 0, partBytes+1) // by one more it is seen where a character ends
	for n := int64(1); size > 0; n++ {
		have, most := len(piece), int(min(size, partBytes+1))
		if _, err := io.ReadFull(r, piece[have:most]); err != nil {
			return err
		}
		piece = piece[:most]
		whole := wholeRunes(piece, partBytes)
		w.buf = append(strconv.AppendInt(append(w.buf, `{"part":`...), n, 10), ',')
		w.buf = append(appendPiece(w.buf, piece[:whole]), '}')
		if err := w.write(); err != nil {
			return err
		}
		size -= int64(whole)
		piece = piece[:copy(piece, piece[whole:])]
	}
	return nil
}

// wholeRunes is how much of b, at most n bytes, ends where a character does, as far as b is UTF-8.
func wholeRunes(b []byte, n int) int {
	if len(b) <= n {
		return len(b)
	}
	for size := n; size > n-utf8.UTFMax; size-- {
		if utf8.RuneStart(b[size]) {
			return size
		}
	}
	return n
}

// End writes the last line.
func (w *Writer) End() error {
	if err := w.closed(); err != nil {
		return err
	}
	w.buf = strconv.AppendInt(append(w.buf, `{"end":`...), w.at.Entries, 10)
	w.buf = fmt.Appendf(w.buf, `,"crc32c":"%08x"}`, w.at.crc)
	w.at.Ended = true
	return w.write()
}

// write writes the line in buf.
func (w *Writer) write() error {
	w.buf = append(w.buf, '\n')
	w.at.Lines++
	w.at.Offset += int64(len(w.buf))
	w.at.crc = crc32.Update(w.at.crc, castagnoli, w.buf)
	_, err := w.w.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}
