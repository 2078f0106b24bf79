package linear

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A value is the number of the write that it comes from; 0 means no entry.
type value = int32

// op is the called method. Each works on one key.
type op int

const (
	get    op = iota // typed: Get, Load or All, which show the value in memory
	set              // Set, SetAsync, SetFSync
	del              // Delete, DeleteAsync
	update           // Update and its twins, which store a new value, and say which they found
	remove           // the same, and delete
	look             // the same, and cancel
	rawGet           // of the value of the log, or the one that waits for it
	rawSet
	rawDel
	txUpdate // of the value of the log, in a transaction
	setMemory
	updateMemory
)

var opNames = [...]string{"get", "set", "delete", "update", "update to delete", "update to nothing", "raw get", "raw put",
	"raw delete", "update in a transaction", "set in memory", "update in memory"}

// input is a call.
type input struct {
	op
	key   int
	wrote value
	how   string // for the reader of a failure
}

// output is its result.
type output struct {
	found   value // the value that was read
	existed bool  // of a deletion, and of an op that decorates an entry
}

// entry is the state of one key: the value for the log, and the one that memory shows instead.
type entry struct {
	logged value
	shadow value // 0 for none
}

func (e entry) shown() value {
	if e.shadow != 0 {
		return e.shadow
	}
	return e.logged
}

// step reports whether a result is possible when no other operation is under way, and returns the
// entry after it.
func step(e entry, in input, out output) (bool, entry) {
	stored := entry{logged: in.wrote}
	switch in.op {
	case get:
		return out.found == e.shown(), e
	case rawGet:
		return out.found == e.logged, e
	case set, rawSet:
		return true, stored
	case update:
		return out.found == e.shown(), stored
	case txUpdate:
		return out.found == e.logged, stored
	case look:
		return out.found == e.shown(), e
	case del:
		return out.existed == (e.shown() != 0), entry{}
	case rawDel:
		return out.existed == (e.logged != 0), entry{}
	case remove:
		return out.found == e.shown(), entry{}
	case setMemory, updateMemory:
		if in.op == updateMemory && out.found != e.shown() || out.existed != (e.logged != 0) {
			return false, e
		}
		if out.existed {
			e.shadow = in.wrote
		}
		return true, e
	}
	panic("unknown operation")
}

var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(input).key
			byKey[key] = append(byKey[key], o)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return entry{} },
	Step: func(state, in, out any) (bool, any) {
		return step(state.(entry), in.(input), out.(output))
	},
	DescribeOperation: func(in, out any) string { return describe(in.(input), out.(output)) },
}

func describe(in input, out output) string {
	return fmt.Sprintf("key %d: %s (%s) writes %d, finds %d, existed %v", in.key, opNames[in.op], in.how, in.wrote, out.found, out.existed)
}
