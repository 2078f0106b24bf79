package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A system record declares a table, with the options that apply to it in every process. The record is written
// before the first entry that it concerns, and once more when more has become known: a map that raw writes have
// filled names no order of its keys before a process that has opened it by a type writes.

// tableOptions is the content of the record that declares a table.
type tableOptions struct {
	keys    string // name of the order of the keys; "" if no process has opened the table by a type and written
	ordered bool   // the keys are kept in that order
	expiry  bool   // the end of an entry at its deadline is a record
}

// Options in the value of the record: names and values, a word each.
const (
	keysOption    = "keys"
	orderedOption = "ordered"
	expiryOption  = "expiry"
	optionYes     = "yes"
)

func (o tableOptions) text() []byte {
	var words []string
	if o.keys != "" {
		words = append(words, keysOption, o.keys)
	}
	if o.ordered {
		words = append(words, orderedOption, optionYes)
	}
	if o.expiry {
		words = append(words, expiryOption, optionYes)
	}
	return []byte(strings.Join(words, " "))
}

// parseOptions is the inverse of text. It leaves out options that this version does not know.
func parseOptions(text []byte) (o tableOptions) {
	for words := strings.Fields(string(text)); len(words) > 1; words = words[2:] {
		switch words[0] {
		case keysOption:
			o.keys = words[1]
		case orderedOption:
			o.ordered = words[1] == optionYes
		case expiryOption:
			o.expiry = words[1] == optionYes
		}
	}
	return o
}

// replayOptions applies the record that declares a table.
func (s *Store) replayOptions(t *Table, is tableOptions) {
	t.inLog.Store(&is)
	by, ok := keycodec.OrderNamed(is.keys)
	if s.shadow || !ok || !is.ordered {
		return
	}
	if o := t.order.Load(); o == nil || o.by != by || !o.ask() {
		o = newOrdering(t, by, t.index.Len() == 0)
		o.asked.Store(true)
		if old := t.order.Swap(o); old != nil {
			old.close()
		}
		s.beginFolding()
	}
}

// KeysName returns the name of the order of the table's keys, "" if the log has none.
func (t *Table) KeysName() string {
	if is := t.inLog.Load(); is != nil {
		return is.keys
	}
	return ""
}

// knownOrder returns the order of the table's keys. ok is false if none is known.
func (t *Table) knownOrder() (by keycodec.Order, ok bool) {
	name := t.KeysName()
	if c := t.cells.Load(); c != nil && name == "" {
		name = c.values.Keys
	}
	return keycodec.OrderNamed(name)
}

// isInBytes reports whether the keys are in the order of their bytes, as far as is known.
func (t *Table) isInBytes() bool {
	by, ok := t.knownOrder()
	return !ok || by.IsBytes()
}

// options returns the options that the log should have for the table.
func (t *Table) options() (is tableOptions) {
	if logged := t.inLog.Load(); logged != nil {
		is = *logged
	}
	if c := t.cells.Load(); c != nil && is.keys == "" {
		is.keys = c.values.Keys
	}
	if was := t.keysWere.Load(); was != nil && is.keys == "" {
		is.keys = *was
	}
	if o := t.order.Load(); o != nil && o.asked.Load() && (is.keys == "" || is.keys == o.by.Name()) {
		is.keys, is.ordered = o.by.Name(), true
	}
	is.expiry = is.expiry || t.asksExpiry() // not the option of the raw keys, which ends where the map begins
	return is
}

// isDeclared reports whether the log has the options of the table. A map that was dropped, and has not been
// opened since, needs none.
func (t *Table) isDeclared() bool {
	is, logged := t.options(), t.inLog.Load()
	if logged == nil {
		return t.isGone() || t.name == "" && is == tableOptions{}
	}
	return is == *logged
}

// declareFor appends the record that declares the table, unless the log has it.
func (s *Store) declareFor(t *Table) error {
	if t.isDeclared() {
		return nil
	}
	t.declaring.Lock() // of two records that differ, the one with more options is the last
	defer t.declaring.Unlock()
	if t.isDeclared() {
		return nil
	}
	key := mapPrefix + t.name
	switch sp := s.spaces[0]; t {
	case sp.raw:
		key = checkpoint.Raw
	case sp.elements:
		key = checkpoint.Elements
	}
	is := t.options()
	p := &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.System}, Key: []byte(key), Value: is.text()}
	if err := s.log.Append(p); err != nil {
		return err
	}
	t.inLog.Store(&is)
	return nil
}

// DeclareAs restores the options that the maps with keys in the span had in a view of a moment: the next record of
// each such map writes them. Options in the present log stay. The error is an ErrType if the keys of a map are in
// another order since. A view of the present changes nothing.
func (s *Store) DeclareAs(v *View, span Span) error {
	if v.store == s {
		return nil
	}
	was := map[string]tableOptions{}
	err := v.Inside(func() error {
		for name, t := range v.store.spaces[0].maps {
			if is := t.inLog.Load(); is != nil && t.meets(&span) {
				was[name] = *is
			}
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if err == nil {
			err = s.declareAs(name, was[name])
		}
	}
	return err
}

func (s *Store) declareAs(name string, was tableOptions) error {
	known, err := keycodec.ParseName([]byte(name))
	if err != nil {
		return err
	}
	t, err := s.Map(known)
	if err != nil {
		return err
	}
	is := t.options()
	if is.keys != "" && was.keys != "" && is.keys != was.keys {
		return fmt.Errorf("%w: the keys of map %s are in the order %s, and were in the order %s", ErrType, name, is.keys, was.keys)
	}
	if was.expiry {
		s.TellExpiry(t)
	}
	t.keysWere.Store(&was.keys)
	if by, ok := keycodec.OrderNamed(was.keys); ok && was.ordered {
		return s.Order(t, by)
	}
	return nil
}
