package importers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// A log of go-persist begins with a line that names it. A record is two lines: an operation, a
// space and the key, without escapes; and the value as JSON, or an empty line where the key is
// deleted. The later record of a key counts. The line feed of the second line means that the record
// is whole: a record without it was being written when the program died, and does not count.
const persistHeader = "go-persist 1"

// persistLog goes through the records of a log.
type persistLog struct {
	*Source
	*lines
	searching bool // for the beginning of a record, after an invalid part
}

// readPersist carries out the records one after the other.
func readPersist(s *Source, emit func(*Item) error) error {
	l := &persistLog{Source: s, lines: newLines(s.In)}
	first, err := l.read()
	if err == nil && string(bytes.TrimSpace(first)) != persistHeader {
		err = fmt.Errorf("the first line is not %q", persistHeader)
	}
	if err == io.EOF {
		err = errors.New("there is no first line")
	}
	if err != nil {
		return err
	}
	for {
		item, err := l.record()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case item == nil:
			continue
		}
		if err := emit(item); err != nil {
			return err
		}
	}
}

// record reads the next record. It returns nil for an invalid part, and reports the beginning of
// one to Bad.
func (l *persistLog) record() (*Item, error) {
	head, err := l.read()
	if err != nil {
		return nil, err
	}
	at, number := l.at, l.number
	if !isPersistHead(head) {
		if l.searching {
			return nil, nil
		}
		l.searching = true
		return nil, l.bad(number, at, l.last(), "%.40q is neither S nor D, a space and a key", head)
	}
	l.searching = false
	item := &Item{Delete: head[0] == 'D'}
	item.Key = append(bytes.Clone(l.Prefix), head[2:]...)
	if l.torn {
		return nil, l.bad(number, at, true, "the record of key %q is cut short", head[2:])
	}
	value, err := l.read()
	if err == io.EOF || err == nil && l.torn {
		return nil, l.bad(number, at, true, "the record of key %q is cut short", item.Key)
	}
	if err != nil {
		return nil, err
	}
	if item.Value, err = l.valueOf(item.Delete, value); err != nil {
		l.back = isPersistHead(value) // the line of the value is missing
		l.searching = !l.back
		return nil, l.bad(number, at, !l.back && l.last(), "the record of key %q: %v", item.Key, err)
	}
	return item, nil
}

func isPersistHead(line []byte) bool {
	return len(line) >= 2 && (line[0] == 'S' || line[0] == 'D') && line[1] == ' '
}

func (l *persistLog) valueOf(deleted bool, line []byte) ([]byte, error) {
	switch {
	case deleted && len(bytes.TrimSpace(line)) > 0:
		return nil, errors.New("a deletion with a value")
	case deleted:
		return nil, nil
	case json.Valid(line):
		return line, nil
	case l.Text && !isPersistHead(line) && utf8.Valid(line):
		return quote(string(line)), nil
	}
	return nil, fmt.Errorf("%.40q is not JSON", line)
}
