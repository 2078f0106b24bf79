package admin

import (
	"errors"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
)

// Place is where a walk by SomeKeys is. The empty Place is the beginning. The text means something to the
// process alone that it is of.
type Place string

// SomeKeys returns about n keys of a store, of entries of all maps and raw ones, in no order, and the
// place behind them; more is false at the end. A walk from page to page has each key that is there
// throughout; a key whose map is declared meanwhile may come twice. Nothing is sorted for it. The error is
// errors.ErrUnsupported for a store on another machine.
func SomeKeys(db *copal.DB, from Place, n int) (keys [][]byte, next Place, more bool, err error) {
	if opened.DriverOf(db) != nil {
		return nil, from, false, errors.ErrUnsupported
	}
	keys, at, more, err := opened.Engine(db).SomeKeys(engine.PlaceOf(string(from)), n)
	return keys, Place(at.String()), more, err
}

// RandomPlace returns a place of SomeKeys by chance.
func RandomPlace(db *copal.DB) Place {
	if opened.DriverOf(db) != nil {
		return ""
	}
	return Place(opened.Engine(db).RandomPlace().String())
}

// CountMaps returns the numbers of entries under the prefixes of maps, as copal.MapPrefix has them,
// declared or not. The first call reads all keys and sorts nothing; later calls are quick, as long as the
// prefixes are the same. ok is false where so much came and went that another way of counting is better, and
// for a store on another machine.
func CountMaps(db *copal.DB, prefixes []string) (counts []int, ok bool, err error) {
	if opened.DriverOf(db) != nil {
		return nil, false, nil
	}
	return opened.Engine(db).CountUnder(prefixes)
}
