package importers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/copaldb/copal/internal/ndjson"
)

// readExport reads the output of copal export.
func readExport(s *Source, emit func(*Item) error) error {
	r := ndjson.NewReader(s.In)
	if err := s.readEntries(r, emit); err != nil {
		return err
	}
	if state := r.State(); !state.Ended {
		return s.bad(state.Lines+1, state.Offset, true, "the export is cut short: the line is missing that says that this is all")
	}
	return nil
}

// readEntries hands on the entries of a Reader. After a last line that is no entry there is nothing
// to read.
func (s *Source) readEntries(r *ndjson.Reader, emit func(*Item) error) error {
	for {
		l, err := r.Next()
		var bad *ndjson.LineError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &bad):
			err = s.Bad(bad)
		case err != nil:
			return err
		case l.Kind == ndjson.Entry:
			err = emit(&Item{Entry: l.Entry})
		case l.Kind == ndjson.Element:
			err = emit(&Item{Element: &l.Element})
		case l.Kind == ndjson.Map && l.Map != "":
			err = emit(&Item{Map: l.Map})
		}
		if err != nil {
			return err
		}
	}
}

// readLines reads JSON objects, one on each line. Without a field for the key they have the form of
// an export's entries.
func readLines(s *Source, emit func(*Item) error) error {
	if s.Key == "" {
		r := ndjson.NewReader(s.In)
		r.Loose = true
		return s.readEntries(r, func(item *Item) error {
			if item.Map == "" && item.Element == nil {
				item.Key = append(bytes.Clone(s.Prefix), item.Key...)
			}
			return emit(item)
		})
	}
	in := newLines(s.In)
	for {
		line, err := in.read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if in.number == 1 {
			line = skipMark(line)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		item := Item{}
		if item.Key, err = s.keyOf(line); err != nil {
			err = s.bad(in.number, in.at, in.last(), "%v", err)
		} else {
			item.Value = line
			err = emit(&item)
		}
		if err != nil {
			return err
		}
	}
}

// keyOf returns the key of the object in line.
func (s *Source) keyOf(line []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	raw, ok := fields[s.Key]
	if !ok {
		return nil, fmt.Errorf("there is no field %q", s.Key)
	}
	switch raw[0] {
	case '"':
		var key string
		err := json.Unmarshal(raw, &key)
		return append(bytes.Clone(s.Prefix), key...), err
	case '{', '[', 'n':
		return nil, fmt.Errorf("the field %q is neither a string nor a number", s.Key)
	}
	return append(bytes.Clone(s.Prefix), raw...), nil
}
