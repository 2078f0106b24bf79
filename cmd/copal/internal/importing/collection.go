package importing

import (
	"bytes"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/importers"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/ndjson"
)

// begin ends the collection before an item, and notes the collection whose elements follow. The
// elements are not in the batch, so earlier entries are written first.
func (in *Intake) begin(item *importers.Item) error {
	err := in.endCollection()
	in.anew = false
	if err != nil || item.Collection == "" {
		return err
	}
	if err := in.flush(); err != nil {
		return err
	}
	in.whole, in.at = item.Entry, in.seen
	in.whole.Key = bytes.Clone(item.Key)
	in.gone = expired(&item.Entry) || in.misfit != nil
	in.anew = in.seen > in.skip && !in.gone
	if in.anew {
		if err := in.countReplaced(in.whole.Key); err != nil {
			return in.broke(err)
		}
	}
	if in.Far {
		in.near, err = in.scratch.Open()
	}
	return err
}

// endCollection writes the elements that are left, and brings a whole collection to a server.
func (in *Intake) endCollection() error {
	if err := in.flushElements(); err != nil || !in.unsent {
		return err
	}
	in.unsent = false
	view, err := copying.Look(in.ending(), in.near)
	if err != nil {
		return err
	}
	defer view.Close()
	if err := in.To.PutCollection(in.ending(), &in.whole, view.Elements(&in.whole, true)); err != nil {
		return fmt.Errorf("key %q: %w", in.whole.Key, err)
	}
	return nil
}

// MostName is the length of the longest name of an element. A key has the number of the collection
// in front of the name, and in a sorted set a score.
const MostName = copal.MaxKeyBytes - 32

// nameTooLong reports whether an element of Redis, where names are as long as values, cannot be one
// of the store.
func (in *Intake) nameTooLong(item *importers.Item) bool {
	return in.format.Redis && len(item.Element.Name) > MostName
}

// element adds an element to those that are written together.
func (in *Intake) element(item *importers.Item) error {
	if in.DB == nil || in.gone {
		return nil
	}
	e := item.Element
	if in.nameTooLong(item) {
		return in.bad(&ndjson.LineError{Reason: fmt.Sprintf("key %q has an element with a name of %d bytes, and the most is %d", in.whole.Key, len(e.Name), MostName)})
	}
	size := len(e.Name) + len(e.Value)
	in.elements = append(in.elements, *e)
	if item.Score != nil {
		in.scores = append(in.scores, *item.Score)
	}
	in.unsaved += int64(size) + 64
	in.scratch.Bytes += size
	return in.more(size)
}

// flushElements writes the elements that there are.
func (in *Intake) flushElements() error {
	if len(in.elements) == 0 {
		return nil
	}
	err := error(nil)
	if len(in.scores) > 0 {
		members := make(map[string]float64, len(in.scores))
		for i, e := range in.elements {
			members[string(e.Name)] = in.scores[i]
		}
		err = copying.PutMembers(in.near, &in.whole, members, in.anew)
	} else {
		err = admin.PutElements(in.near, &in.whole, in.elements, in.anew)
	}
	in.unsent = in.Far
	if err != nil {
		err = fmt.Errorf("key %q: %w", in.whole.Key, err)
	}
	in.anew, in.elements, in.scores = false, in.elements[:0], in.scores[:0]
	return err
}
