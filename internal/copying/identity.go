package copying

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/driver"
)

// A source may come back without the entries that it had: a directory on a volume that is not mounted, a Redis without
// persistence, an older backup. To the walk, its entries were deleted. So the position has the identity of the source,
// and a copy that finds another one deletes nothing unless its user asks for it.

// OtherError is the end of a copy that would have to delete entries of the destination, although
// the source is not known to have deleted them.
type OtherError struct{ Why string }

func (e *OtherError) Error() string {
	return "the source does not have all entries that the destination has, and may have lost them: " + e.Why
}

// identify finds out whether the source is the one of the position, and has the walk begin again if
// it is not. id is the source's identity.
func (c *Copy) identify(ctx context.Context, now view) (id string, err error) {
	if id, err = c.from.identity(ctx); err != nil {
		return "", err
	}
	c.present, c.other = id, ""
	switch {
	case c.at.Store != "" && id != c.at.Store:
		c.other = fmt.Sprintf("an earlier run has copied %s, and this is %s", c.at.Store, nameless(id))
		c.restart()
	case c.at.Seq > now.seq():
		c.other = fmt.Sprintf("it has the writes up to number %d, and an earlier run has copied those up to number %d", now.seq(), c.at.Seq)
		c.restart()
	case c.from.moments() || c.whole: // changes are reported
	case id == "" && now.total() == 0:
		c.other = "it has no entries at all"
	case c.report.Resumed && c.report.Walks == 0 && (id == "" || c.at.Store == ""):
		c.other = unknownSource
	}
	return id, nil
}

// unknownSource is the reason where no identity shows that the source has not been restarted.
const unknownSource = "nothing says that it is the one that was copied before, as its user may not ask, or the position is of an earlier version"

// doubt returns a reason not to delete, "" for none, where changes were missed.
func (c *Copy) doubt() string {
	if c.present == "" {
		return unknownSource
	}
	return ""
}

func nameless(id string) string {
	if id == "" {
		return "one of unknown identity"
	}
	return id
}

// same returns an error if the source has become another one during the round.
func (c *Copy) same(ctx context.Context) error {
	id, err := c.from.identity(ctx)
	if err == nil && id != c.present && !c.Delete {
		err = &OtherError{fmt.Sprintf("it was %s, and has become %s", nameless(c.present), nameless(id))}
	}
	return err
}

// identity is the store's for a copal serve. For a Redis it is the process, since another one may begin with nothing,
// and the history that a replica has from its master; in a cluster those of all masters.
func (s server) identity(ctx context.Context) (string, error) {
	d, ok := s.d.(driver.Informing)
	if !ok {
		return "", nil
	}
	masters, err := d.Info(ctx)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported): // the user may not ask
		return "", nil
	case err != nil:
		return "", err
	}
	var ids []string
	for _, m := range masters {
		if id := m["store"]; id != "" && s.moments() {
			return "store " + id, nil
		}
		switch had := strings.Trim(m["master_replid2"], "0"); {
		case m["run_id"] == "":
		case had == "": // it never was a replica, and the history has another name once it has one
			ids = append(ids, m["run_id"])
		default:
			ids = append(ids, m["run_id"]+" with history "+m["master_replid"])
		}
	}
	if len(ids) == 0 {
		return "", nil
	}
	slices.Sort(ids)
	return "server " + strings.Join(ids, ", "), nil
}
