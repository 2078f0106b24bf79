package table

import (
	"strings"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// Rivals take part beside those that this package has: sync.Map, a map with a lock, bbolt, badger
// and buntdb. They are of modules that not every program with this package needs.
type Rivals struct {
	Stores []rivals.Engine
	Maps   []RivalMap
}

// A RivalMap is a kind of map.
type RivalMap struct {
	Name   string
	Module string // the path of its module, by which its version is found
	New    func() Map[Person]
}

// setting is the parameters of lines: how much they do, and the engines.
type setting struct {
	scale
	rivals Rivals
}

// stores returns the rivals of copal in most lines of raw bytes, in the order of their rows.
func (s setting) stores() []rivals.Engine {
	return append([]rivals.Engine{rivals.Bbolt, rivals.Badger}, s.rivals.Stores...)
}

// withCopal returns copal, then engines.
func withCopal(engines []rivals.Engine) []rivals.Engine {
	return append([]rivals.Engine{rivals.Copal}, engines...)
}

// namesOf returns the names of engines, each with a suffix.
func namesOf(engines []rivals.Engine, suffix string) (list []string) {
	for _, e := range engines {
		list = append(list, e.Name+suffix)
	}
	return list
}

// best returns the names of the stores of which the best is compared.
func (s setting) best() string {
	names := namesOf(s.stores(), "")
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// open opens a store in a directory of the line, until the line is done.
func (e *env) open(engine rivals.Engine, durable bool) (rivals.Store, error) {
	s, err := engine.OpenIn(e.dir, durable)
	if err == nil {
		e.after(s.Close)
	}
	return s, err
}

// eachFilled calls f with a store of each engine that has the values of round 0.
func (e *env) eachFilled(engines []rivals.Engine, durable bool, keys [][]byte, bytes int, f func(engine rivals.Engine, s rivals.Store)) error {
	for _, engine := range engines {
		store, err := e.open(engine, durable)
		if err != nil {
			return err
		}
		if err := fillBlobs(store, keys, bytes); err != nil {
			return err
		}
		f(engine, store)
	}
	return nil
}
