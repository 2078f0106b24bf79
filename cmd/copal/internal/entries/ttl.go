package entries

import (
	"bufio"
	"fmt"
	"math"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// ShowDeadline prints the time that an entry has left.
func ShowDeadline(a *cli.App, db *copal.DB, key []byte, asJSON bool, out *bufio.Writer) error {
	expires, err := cli.Expiry(db.Raw(), key)
	if err != nil {
		return a.Missing(cli.Source{DB: db}, err, key)
	}
	var millis *int64
	left := "none"
	if expires != nil {
		now := time.Now()
		d, ms := max(time.Time(*expires).Sub(now), 0), max(time.Time(*expires).UnixMilli()-now.UnixMilli(), 0)
		millis, left = &ms, cli.ShowTTL(d)
		if d == math.MaxInt64 { // and there is more than that
			left = cli.ShowDays(ms)
		}
	}
	if asJSON {
		return cli.WriteJSON(out, struct {
			Key       any           `json:"key"`
			Expires   *cli.JSONTime `json:"expires"`
			TTLMillis *int64        `json:"ttlMillis"`
		}{cli.JSONKey(key), expires, millis})
	}
	_, err = fmt.Fprintln(out, left)
	return err
}
