package admin

import (
	"errors"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
)

// Place is a position in a walk by SomeKeys. The empty Place is the beginning. A Place is valid
// only in the process that returned it.
type Place string

// AnyPlace is a place that SomeKeys picks at random.
const AnyPlace Place = "?"

// SomeKeys returns about n keys of a store, of entries of all maps and raw ones, in no order, and
// the place after them; more is false at the end. A walk from place to place returns each key that
// exists throughout; a key whose map is declared meanwhile may come twice. The caller owns the keys.
// SomeKeys does not sort. The error is errors.ErrUnsupported for a store on another machine.
func SomeKeys(db *copal.DB, from Place, n int) (keys [][]byte, next Place, more bool, err error) {
	if opened.DriverOf(db) != nil {
		return nil, from, false, errors.ErrUnsupported
	}
	store, place := opened.Engine(db), engine.PlaceOf(string(from))
	if from == AnyPlace {
		place = store.RandomPlace()
	}
	keys, at, more, err := store.SomeKeys(place, n)
	return keys, Place(at.String()), more, err
}

// CountMaps returns the number of entries under each prefix of a map, of copal.MapPrefix, whether
// the map is declared or not. The first call reads all keys and sorts nothing; later calls with the
// same prefixes are quick if no other list was counted in between. ok is false if keys came or went
// during each of three counts, the store is on another machine, or there are no prefixes.
func CountMaps(db *copal.DB, prefixes []string) (counts []int, ok bool, err error) {
	if opened.DriverOf(db) != nil || len(prefixes) == 0 {
		return nil, false, nil
	}
	return opened.Engine(db).CountUnder(prefixes)
}
