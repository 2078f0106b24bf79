package entries

import (
	"bufio"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Set has the flags of set.
type Set struct {
	JSON, Quoted, FSync bool
	TTL, Until          string
}

// Deadline returns the deadline of the entry, the zero time for none.
func (f *Set) Deadline() (time.Time, error) {
	switch {
	case f.TTL != "":
		ttl, err := cli.ParseTTL(f.TTL)
		return time.Now().Add(ttl), err
	case f.Until != "":
		return cli.ParseDeadlineAt(f.Until)
	}
	return time.Time{}, nil
}

// Store stores a value.
func (f *Set) Store(db *copal.DB, key, value []byte, out *bufio.Writer) error {
	deadline, err := f.Deadline()
	if err != nil {
		return err
	}
	raw := admin.Raw(db, admin.Values{})
	if f.FSync {
		raw = raw.With(copal.FSync)
	}
	if deadline.IsZero() {
		err = raw.Set(key, value)
	} else {
		err = raw.SetUntil(key, value, deadline)
	}
	if err != nil || !f.JSON {
		return err
	}
	expires, err := cli.Expiry(raw, key)
	if err != nil {
		return err
	}
	return cli.WriteJSON(out, struct {
		Key        any           `json:"key"`
		Expires    *cli.JSONTime `json:"expires,omitempty"`
		ValueBytes int           `json:"valueBytes"`
	}{cli.JSONKey(key), expires, len(value)})
}
