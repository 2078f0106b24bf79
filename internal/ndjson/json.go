package ndjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/copaldb/copal/internal/jsontext"
)

// appendName appends bytes as a string or, where they are not UTF-8, as {"base64":"…"}.
func appendName(dst, b []byte) []byte {
	if utf8.Valid(b) {
		return jsontext.AppendString(dst, string(b))
	}
	dst = append(dst, `{"base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, b), `"}`...)
}

// ParseKey is the key that AppendKey has made b of.
func ParseKey(b []byte) ([]byte, error) {
	if len(b) == 0 || b[0] != '{' {
		s, err := jsontext.Unquote(b)
		return []byte(s), err
	}
	var out []byte
	err := jsontext.EachField(b, func(name string, value []byte) (err error) {
		if name != "base64" || out != nil {
			return fmt.Errorf("a field %q beside base64", name)
		}
		out, err = parseBase64(value)
		return err
	})
	if err == nil && out == nil {
		err = errors.New("neither a string nor base64")
	}
	return out, err
}

func parseBase64(b []byte) ([]byte, error) {
	s, err := jsontext.Unquote(b)
	if err != nil {
		return nil, err
	}
	out, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errors.New("a string that is not base64")
	}
	if bytes.ContainsAny([]byte(s), "\r\n") {
		return nil, errors.New("a line break in base64")
	}
	return append([]byte{}, out...), nil
}

// standsAsItIs reports whether b is JSON that can be copied into a line, and be read back byte for
// byte.
func standsAsItIs(b []byte) bool {
	return len(b) > 0 && len(b) == len(bytes.TrimSpace(b)) && bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 && utf8.Valid(b) && json.Valid(b) && !jsontext.IsDeep(b)
}

// lastOfDates is the first year that RFC 3339 cannot name.
const lastOfDates = 10000

// AppendTime appends a time: RFC 3339, or beyond the year 9999 the milliseconds since 1970.
func AppendTime(dst []byte, t time.Time) []byte {
	if y := t.UTC().Year(); y < 0 || y >= lastOfDates {
		return strconv.AppendInt(dst, t.UnixMilli(), 10)
	}
	dst = append(dst, '"')
	return append(t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00"), '"')
}

// parseTime reads RFC 3339, or a number of milliseconds since 1970.
func parseTime(b []byte) (time.Time, error) {
	if len(b) > 0 && b[0] != '"' {
		ms, err := strconv.ParseInt(string(b), 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s is no time", jsontext.Excerpt(b))
		}
		return time.UnixMilli(ms), nil
	}
	s, err := jsontext.Unquote(b)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is no time", jsontext.Excerpt(b))
	}
	return t, nil
}

func parseNumber(b []byte) (int64, error) {
	n, err := strconv.ParseUint(string(b), 10, 63)
	if err != nil || len(b) > 1 && b[0] == '0' {
		return 0, fmt.Errorf("%s is no number that is possible here", jsontext.Excerpt(b))
	}
	return int64(n), nil
}
