package copying

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// positionKey is the key of the position, in the destination.
var positionKey = []byte("copal.copy:position")

// position is the progress of a copy.
type position struct {
	From   string `json:"from"`   // the source, as its user names it
	Store  string `json:"store"`  // its identity at the end of the last round, "" if that is not known
	Seq    uint64 `json:"seq"`    // all entries before Next are at least as new
	Next   []byte `json:"next"`   // the first key that the walk has not come to
	Walked bool   `json:"walked"` // it is through

	// Differs is set after a comparison has found entries that no copy has written. Until a walk
	// has repaired that, entries that only the destination has may belong to another program.
	Differs bool `json:"differs,omitempty"`
}

// restart has the walk begin again.
func (c *Copy) restart() {
	c.at, c.whole = position{From: c.Name, Store: c.at.Store, Differs: c.at.Differs}, false
}

// entry is the position as an entry of the destination.
func (p *position) entry() (*admin.Entry, error) {
	text, err := json.Marshal(p)
	return &admin.Entry{Key: positionKey, Value: text}, err
}

// find looks for a position in the destination, and for anything else. Found is false if there is
// none.
func (c *Copy) find(ctx context.Context) (found bool, err error) {
	to, err := c.to.view(ctx)
	if err != nil {
		return false, err
	}
	defer to.close()
	for e, err := range entriesOf(to, positionKey, append(positionKey[:len(positionKey):len(positionKey)], 0)) {
		if err != nil {
			return false, err
		}
		var was position
		if err := json.Unmarshal(e.Value, &was); err != nil {
			return false, fmt.Errorf("the position of an earlier copy, key %s of the destination, cannot be read: %w", positionKey, err)
		}
		if was.From != c.Name && !c.Replace {
			return false, fmt.Errorf("the destination has an unfinished copy of %s: continue that, or replace all its entries", was.From)
		}
		if was.From != c.Name {
			return false, nil
		}
		c.at = was
		return true, nil
	}
	if c.Replace {
		return false, nil
	}
	for _, err := range to.entries(nil, nil) {
		if err != nil {
			return false, err
		}
		return false, ErrNotEmpty
	}
	return false, nil
}

// ErrNotEmpty: the destination has entries that no copy of this source has made.
var ErrNotEmpty = errors.New("the destination is not empty")

// note writes the position, after the entries that it covers.
func (c *Copy) note(ctx context.Context, list ...*admin.Entry) error {
	p, err := c.at.entry()
	if err != nil {
		return err
	}
	return c.to.put(ctx, append(list, p))
}

// forget takes the position out of the destination.
func (c *Copy) forget(ctx context.Context) error {
	return c.to.put(ctx, []*admin.Entry{{Key: positionKey, Deleted: true}})
}

// isLost is for a feed that does not reach back to the position.
func isLost(err error) bool {
	return errors.Is(err, copal.ErrHistoryLost) || errors.Is(err, errors.ErrUnsupported)
}
