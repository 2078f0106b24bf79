package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/copaldb/copal/internal/ndjson"
)

// WriteJSON writes v as one line.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// ShowBytes returns a number of bytes and, from 1 KiB on, the same rounded to a unit that
// a person can compare.
func ShowBytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprint(n)
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= 1 << 10; value < 999.95 {
			break
		}
	}
	return fmt.Sprintf("%d (%.1f %s)", n, value, unit)
}

// Count returns a number and its noun.
func Count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// CountEntries returns a number of entries in words.
func CountEntries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// WriteEntry writes an entry as a line of JSON, in the form of an export.
func WriteEntry(out *bufio.Writer, key []byte, expires *JSONTime, value []byte) error {
	line := ndjson.AppendKey(append(out.AvailableBuffer(), `{"key":`...), key)
	line = AppendExpires(line, expires)
	line = ndjson.AppendValue(append(line, ','), value)
	_, err := out.Write(append(line, "}\n"...))
	return err
}

// AppendExpires appends the field of a deadline, if there is one.
func AppendExpires(line []byte, expires *JSONTime) []byte {
	if expires == nil {
		return line
	}
	return ndjson.AppendTime(append(line, `,"expires":`...), time.Time(*expires))
}
