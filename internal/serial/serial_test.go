package serial

import (
	"strings"
	"testing"
)

func read(key string, list ...int) Op { return Op{Key: key, Read: list} }
func add(key string, n int) Op        { return Op{Key: key, Append: n} }
func during(name string, from, to int64, ops ...Op) Txn {
	return Txn{Name: name, Begin: from, End: to, Ops: ops}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		history []Txn
		want    string // part of the error, "" for none
	}{
		"serial": {[]Txn{
			during("a", 1, 2, read("x"), add("x", 1), read("x", 1)),
			during("b", 3, 4, read("x", 1), add("y", 1)),
			during("c", 5, 6, read("x", 1), read("y", 1)),
		}, ""},
		"one before the other, though it ends later": {[]Txn{
			during("a", 1, 9, read("x"), read("y")),
			during("b", 2, 3, add("x", 1)),
		}, ""},
		"lost update": {[]Txn{
			during("a", 1, 9, read("x"), add("x", 1)),
			during("b", 2, 8, read("x"), add("x", 2)),
			during("c", 10, 11, read("x", 1, 2)),
		}, "no serial order"},
		"write skew": {[]Txn{
			during("a", 1, 9, read("x"), read("y"), add("x", 1)),
			during("b", 2, 8, read("x"), read("y"), add("y", 1)),
			during("c", 10, 11, read("x", 1), read("y", 1)),
		}, "no serial order"},
		"write skew that nobody has read": {[]Txn{
			during("a", 1, 9, read("x"), read("y"), add("x", 1)),
			during("b", 2, 8, read("x"), read("y"), add("y", 1)),
		}, "no serial order"},
		"long fork": {[]Txn{
			during("a", 1, 9, add("x", 1)),
			during("b", 2, 8, add("y", 1)),
			during("c", 3, 7, read("x", 1), read("y")),
			during("d", 4, 6, read("x"), read("y", 1)),
		}, "no serial order"},
		"read-only anomaly": {[]Txn{
			during("withdraw", 1, 9, read("x"), read("y"), add("x", 1)),
			during("deposit", 2, 3, read("y"), add("y", 1)),
			during("look", 4, 5, read("x"), read("y", 1)),
		}, "no serial order"},
		"half of a transaction": {[]Txn{
			during("a", 1, 9, add("x", 1), add("y", 1)),
			during("b", 2, 8, read("x", 1), read("y")),
		}, "no serial order"},
		"stale": {[]Txn{
			during("a", 1, 2, add("x", 1)),
			during("b", 3, 4, read("x")),
		}, "no serial order"},
		"stale, with others between": {[]Txn{
			during("a", 1, 2, add("x", 1)),
			during("b", 3, 4, read("y")),
			during("c", 5, 6, read("x")),
		}, "no serial order"},
		"given up": {[]Txn{during("a", 1, 2, read("x", 7))}, "appended by nobody"},
		"two orders": {[]Txn{
			during("a", 1, 2, add("x", 1)), during("b", 3, 4, add("x", 2)),
			during("c", 5, 6, read("x", 1, 2)), during("d", 7, 8, read("x", 2)),
		}, "and another as"},
		"unrepeatable": {[]Txn{
			during("a", 1, 9, read("x"), read("x", 1)),
			during("b", 2, 3, add("x", 1)),
		}, "reads x twice"},
		"not its own": {[]Txn{during("a", 1, 2, add("x", 1), read("x"))}, "after it has appended"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(c.history)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check: %v, want %q", err, c.want)
			}
		})
	}
}
