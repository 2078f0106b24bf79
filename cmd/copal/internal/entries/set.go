package entries

import (
	"bufio"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Set say how a value is written.
type Set struct {
	JSON, Quoted, FSync bool
	TTL, Until          string
}

// Deadline is when the entry is to expire, the zero time for never.
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

func (f *Set) Set(db *copal.DB, key, value []byte, out *bufio.Writer) error {
	deadline, err := f.Deadline()
	if err != nil {
		return err
	}
	raw := admin.Typed(db)
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
