package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// conditions are those under which a request is carried out. The strong ETag of an entry is the sequence number of its
// record, which no other state of any entry of the store has.
type conditions struct {
	match, none tags
}

// tags is a list of entity tags.
type tags struct {
	given bool
	any   bool // *
	seqs  []uint64
}

// etag is the entity tag of a sequence number.
func etag(seq uint64) string {
	var room [24]byte
	return string(appendETag(room[:0], seq))
}

func appendETag(dst []byte, seq uint64) []byte {
	return append(strconv.AppendUint(append(dst, '"'), seq, 10), '"')
}

// conditionsOf are those of the headers.
func conditionsOf(h http.Header) (c conditions, err error) {
	if c.match, err = parseTags(h, "If-Match", true); err == nil {
		c.none, err = parseTags(h, "If-None-Match", false)
	}
	return c, err
}

// parseTags reads a header of entity tags. A strong comparison ignores a weak one. A tag of another
// form than ours is no error: it matches nothing.
func parseTags(h http.Header, name string, strong bool) (t tags, err error) {
	for _, line := range h[name] {
		t.given = true
		for line = strings.Trim(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t,") {
			if line[0] == '*' {
				t.any, line = true, line[1:]
				continue
			}
			rest, weak := strings.CutPrefix(line, "W/")
			tag, rest, whole := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
			if !whole || !strings.HasPrefix(strings.TrimPrefix(line, "W/"), `"`) {
				return t, problemf(badRequest, "%s: %s is not an entity tag; one is \"17\", in double quotes", name, line)
			}
			if n, ok := parseSeq(tag); ok && !(weak && strong) {
				t.seqs = append(t.seqs, n)
			}
			line = rest
		}
	}
	return t, nil
}

// parseSeq reads a sequence number in its one spelling: without a sign, a space or a zero in front.
func parseSeq(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && (text == "0" || text[0] != '0' && text[0] != '+')
}

// has reports whether the state of an entry is among them; 0 is none.
func (t *tags) has(seq uint64) bool {
	if seq == 0 {
		return false
	}
	if t.any {
		return true
	}
	for _, n := range t.seqs {
		if n == seq {
			return true
		}
	}
	return false
}

// given reports whether there are any.
func (c *conditions) given() bool { return c.match.given || c.none.given }

// hold returns a problem unless the conditions hold for an entry; 0 is none.
func (c *conditions) hold(seq uint64) error {
	now := "there is no entry"
	if seq != 0 {
		now = "the entry has the ETag " + etag(seq)
	}
	switch {
	case c.match.given && !c.match.has(seq):
		return problemf(failed, "If-Match does not hold: %s", now)
	case c.none.given && c.none.has(seq):
		return problemf(failed, "If-None-Match does not hold: %s", now)
	}
	return nil
}

// deadlineOf reads the deadline that a request gives an entry: keep if the request has none, and otherwise the
// deadline, the zero Time for none.
func deadlineOf(ttl, expires string) (at time.Time, keep bool, err error) {
	switch {
	case ttl != "" && expires != "":
		return at, false, problemf(badRequest, "Copal-TTL and Copal-Expires exclude each other")
	case ttl == "" && expires == "":
		return at, true, nil
	case ttl == "none" || expires == "none":
		return at, false, nil
	case expires != "":
		if at, err = time.Parse(time.RFC3339, expires); err != nil {
			return at, false, problemf(badRequest, "Copal-Expires is a time such as 2030-01-02T15:04:05Z, or none, and not %q", expires)
		}
		if !at.After(time.Now()) {
			return at, false, problemf(badRequest, "Copal-Expires has passed: %s", expires)
		}
		return at, false, nil
	}
	d, err := parseTTL(ttl)
	if err != nil {
		return at, false, err
	}
	return time.Now().Add(d), false, nil
}

// mostTTL is a TTL that is surely within the calendar.
const mostTTL = 100 * 366 * 24 * time.Hour

// parseTTL reads a time to live: seconds, or a duration of Go such as 1h30m.
func parseTTL(text string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	d := time.Duration(0)
	if err == nil && seconds < mostTTL.Seconds() {
		d = time.Duration(seconds * float64(time.Second))
	} else if err != nil {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d <= 0 || d > mostTTL {
		return 0, problemf(badRequest, "Copal-TTL is seconds, or a duration such as 1h30m, of at most a hundred years, or none; it is not %q", text)
	}
	return d, nil
}
