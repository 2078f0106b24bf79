package entries

import (
	"bufio"
	"fmt"
	"math"
	"strconv"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Incr has the flags of incr.
type Incr struct {
	JSON, Quoted, FSync bool
	By                  int64
}

// Add adds to the number of a key, and prints the sum.
func (f *Incr) Add(db *copal.DB, key []byte, out *bufio.Writer) error {
	raw := admin.Raw(db, admin.Values{})
	update := raw.Update
	if f.FSync {
		update = raw.UpdateFSync
	}
	var sum int64
	_, _, err := update(key, func(e *copal.Entry[[]byte]) (err error) {
		sum, err = add(e, key, f.By)
		return err
	})
	if err != nil {
		return err
	}
	if f.JSON {
		return cli.WriteJSON(out, struct {
			Key   any   `json:"key"`
			Value int64 `json:"value"`
		}{cli.JSONKey(key), sum})
	}
	_, err = fmt.Fprintln(out, sum)
	return err
}

// add adds n to the number of an entry.
func add(e *copal.Entry[[]byte], key []byte, n int64) (sum int64, err error) {
	old := int64(0)
	if e.Exists {
		if old, err = strconv.ParseInt(string(e.Value), 10, 64); err != nil {
			return 0, fmt.Errorf("%s: the value is no whole number of 64 bits", cli.ShowKey(key))
		}
	}
	if n > 0 && old > math.MaxInt64-n || n < 0 && old < math.MinInt64-n {
		return 0, fmt.Errorf("%s: %d and %d are beyond 64 bits", cli.ShowKey(key), old, n)
	}
	e.Set(strconv.AppendInt(nil, old+n, 10))
	return old + n, nil
}
