package killtest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// mix is the work of the writers of a store, all at the same time. A store is of one mix, and the
// kills are counted by mix.
type mix struct {
	name    string
	values  bool // six writers of single values, of all durabilities (ledger_test.go)
	writers []shape
	acks    int  // a child is killed at the latest after so many
	small   bool // segments
	shrinks bool // and compaction all the time
}

var (
	smallBatches = &rawShape{verbs: "batch batch batch delete put", keys: 40, few: 1, most: 20, bytes: 200, large: 5000}
	longBatches  = &rawShape{verbs: "batch", keys: 1000, few: 30, most: 1200, bytes: 300}
	largeBatches = &rawShape{verbs: "batch", keys: 40, few: 2, most: 60, least: 500, bytes: 60_000}
	mixedBatches = &rawShape{verbs: "batch batch put delete", keys: 30, few: 1, most: 60, bytes: 2000, large: 1 << 20}
	largeValues  = &rawShape{verbs: "put put put put delete batch", keys: 8, few: 1, most: 5, bytes: 500, large: 5 << 19}
	streams      = &rawShape{verbs: "stream stream give-up put delete", keys: 4, large: 3 << 20}
	deadlines    = &rawShape{verbs: "batch put put expire persist delete", keys: 20, few: 1, most: 20, bytes: 300, large: 2000, deadlines: true}
	smallTxs     = &txShape{keys: 10, few: 1, most: 10, bytes: 300}
	largeTxs     = &txShape{keys: 40, few: 10, most: 150, bytes: 40_000}
	hashes       = &collectionShape{verbs: "hset hset hset hset-notes hdel hclear hrename expire persist", keys: 4, most: 300, bytes: 10_000}
	lists        = &collectionShape{verbs: "push push push push-front pop pop-front ldelete lset linsert linsert lclear lrename expire", keys: 3, most: 200, bytes: 10_000}
	sets         = &collectionShape{verbs: "sadd sadd sadd srem sclear srename persist expire", keys: 3, most: 400}
	sortedSets   = &collectionShape{verbs: "zadd zadd zadd zrem zclear zrename", keys: 3, most: 300}
	wholes       = &collectionShape{verbs: "hset push sadd zadd hclear lclear sclear zclear hrename lrename srename zrename delete put expire persist hset-notes", keys: 3, most: 60, bytes: 20_000}
)

var mixes = []*mix{
	{name: "values", values: true, acks: 300},
	{name: "batch", writers: []shape{smallBatches, smallBatches}, acks: 200},
	{name: "batch-long", writers: []shape{longBatches}, acks: 30},
	{name: "batch-large", writers: []shape{largeBatches}, acks: 10},
	{name: "batch-mixed", writers: []shape{mixedBatches, smallBatches}, acks: 50},
	{name: "tx", writers: []shape{smallTxs, smallTxs, smallTxs}, acks: 100},
	{name: "tx-large", writers: []shape{largeTxs}, acks: 20},
	{name: "hash", writers: []shape{hashes, hashes}, acks: 60},
	{name: "list", writers: []shape{lists, lists}, acks: 60},
	{name: "set", writers: []shape{sets, sortedSets}, acks: 60},
	{name: "whole", writers: []shape{wholes, wholes}, acks: 100},
	{name: "stream", writers: []shape{streams, smallBatches}, acks: 12},
	{name: "large", writers: []shape{largeValues, smallBatches}, acks: 20},
	{name: "expiry", writers: []shape{deadlines, deadlines}, acks: 150},
	{name: "all", values: true, writers: []shape{smallBatches, mixedBatches, smallTxs, wholes, hashes, streams, deadlines}, acks: 150},
	{name: "compaction", values: true, writers: []shape{smallBatches, smallTxs, wholes, deadlines}, acks: 150, small: true, shrinks: true},
}

func mixNamed(name string) *mix {
	for _, m := range mixes {
		if m.name == name {
			return m
		}
	}
	return nil
}

// chosenMixes returns the mixes that COPAL_SHAPES names, or all: "batch" means every one whose name
// begins so.
func chosenMixes(t *testing.T) (list []*mix) {
	text := os.Getenv("COPAL_SHAPES")
	if text == "" {
		return mixes
	}
	for name := range strings.SplitSeq(text, ",") {
		found := false
		for _, m := range mixes {
			if m.name == name || strings.HasPrefix(m.name, name+"-") {
				list, found = append(list, m), true
			}
		}
		if !found {
			var names []string
			for _, m := range mixes {
				names = append(names, m.name)
			}
			t.Fatalf("COPAL_SHAPES: there is no %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	return list
}

// say returns the tally of a mix in a few words.
func (m *mix) say(t tally) string {
	acks := t.steps
	for _, n := range t.acks {
		acks += n
	}
	return fmt.Sprintf("%s: %d kills, %d acknowledged, %d lost, %d refused, %d other", m.name, t.cycles, acks, t.lost+t.wrong, t.shut, t.unsound-t.shut)
}
