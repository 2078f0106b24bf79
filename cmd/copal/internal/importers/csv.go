package importers

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// readCSV reads a table with a first row of names. Each row becomes a JSON object with the names as
// its fields, in their order.
func readCSV(s *Source, emit func(*Item) error) error {
	whole := bufio.NewReader(s.In)
	mark := int64(0) // with which some programs begin UTF-8, also before a quote
	if head, _ := whole.Peek(len(byteOrderMark)); len(skipMark(head)) < len(head) {
		n, _ := whole.Discard(len(head))
		mark = int64(n)
	}
	end := &lastByte{Reader: whole, most: mostRow}
	in := csv.NewReader(end)
	in.ReuseRecord = true
	if s.Comma != 0 {
		in.Comma = s.Comma
	}
	names, err := in.Read()
	if err == io.EOF {
		return errors.New("there is no row of names")
	}
	if err != nil {
		return err
	}
	row, err := newRow(s, names)
	if err != nil {
		return err
	}
	for {
		offset := in.InputOffset()
		end.most = offset + mostRow
		fields, err := in.Read()
		if err == io.EOF {
			if end.seen && end.b != '\n' && end.b != '\r' {
				s.Note("the last row has no end of line: if the file was cut there, its last field may be too short")
			}
			return nil
		}
		line, open := int64(0), false
		var wrong *csv.ParseError
		if errors.As(err, &wrong) {
			line, err = int64(wrong.StartLine), wrong.Err
			if open = wrong.Line > wrong.StartLine; open {
				err = fmt.Errorf("a quoted field goes on up to line %d: %w", wrong.Line, err)
			}
		} else if err != nil {
			return err
		} else {
			n, _ := in.FieldPos(0)
			line = int64(n)
			var item *Item
			if item, err = row.item(fields); err == nil {
				if err := emit(item); err != nil {
					return err
				}
				continue
			}
		}
		// A quote that is not closed takes all later rows along, so that row is not reported as
		// cut.
		if err := s.bad(line, offset+mark, !open && end.at == in.InputOffset() && end.ended, "%v", err); err != nil {
			return err
		}
	}
}

// lastByte remembers the byte that was read last.
type lastByte struct {
	io.Reader
	at    int64
	b     byte
	seen  bool
	ended bool
	most  int64 // where a row has to end
}

// mostRow is the length of a row, at most: a quote without an end would take all memory.
const mostRow = 64 << 20

var errLongRow = fmt.Errorf("a row of more than %d bytes; a quote may have no end", mostRow)

func (r *lastByte) Read(p []byte) (int, error) {
	if r.at > r.most {
		return 0, errLongRow
	}
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.b, r.seen = p[n-1], true
		r.at += int64(n)
	}
	r.ended = r.ended || err != nil
	return n, err
}

// row makes items of the rows of a table.
type row struct {
	*Source
	names [][]byte // as JSON
	key   int
	entry Item
}

func newRow(s *Source, names []string) (*row, error) {
	r := &row{Source: s, key: -1}
	for i, name := range names {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("the name %q of a column is not UTF-8", name)
		}
		if name == s.Key && s.Key != "" {
			r.key = i
		}
		quoted := quote(name)
		if slices.ContainsFunc(r.names, func(other []byte) bool { return string(other) == string(quoted) }) {
			return nil, fmt.Errorf("two columns are called %q", name)
		}
		r.names = append(r.names, quoted)
	}
	switch {
	case r.key < 0 && len(names) == 1:
		return nil, fmt.Errorf("there is no column %q; there is one, %q: --comma says what stands between two", s.Key, names[0])
	case r.key < 0:
		return nil, fmt.Errorf("there is no column %q; there are %q", s.Key, names)
	}
	return r, nil
}

// item returns the entry of a row.
func (r *row) item(fields []string) (*Item, error) {
	it := &r.entry
	it.Key = append(append(it.Key[:0], r.Prefix...), fields[r.key]...)
	it.Value = append(it.Value[:0], '{')
	for i, field := range fields {
		if !utf8.ValidString(field) {
			return nil, fmt.Errorf("column %s is not UTF-8", r.names[i])
		}
		if i > 0 {
			it.Value = append(it.Value, ',')
		}
		it.Value = append(append(it.Value, r.names[i]...), ':')
		if r.Numbers && isNumber(field) {
			it.Value = append(it.Value, field...)
		} else {
			it.Value = append(it.Value, quote(field)...)
		}
	}
	it.Value = append(it.Value, '}')
	return it, nil
}

// isNumber reports whether s is a number as JSON writes them.
func isNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	last := s[len(s)-1]
	return last >= '0' && last <= '9' && json.Valid([]byte(s))
}

// quote returns s, which is UTF-8, as JSON without escaping the characters of HTML.
func quote(s string) []byte {
	out := make([]byte, 0, len(s)+2)
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c < 0x20:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
