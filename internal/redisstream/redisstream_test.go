package redisstream

import (
	"fmt"
	"slices"
	"testing"
)

// An id is read as it was written, and its neighbours are those that sort there.
func FuzzStreamIDs(f *testing.F) {
	f.Add(uint64(0), uint64(0))
	f.Add(^uint64(0), ^uint64(0))
	f.Add(uint64(7), ^uint64(0))
	f.Fuzz(func(t *testing.T, ms, seq uint64) {
		id := ID{ms, seq}
		if got := string(id.Append(nil)); got != fmt.Sprintf("%d-%d", ms, seq) {
			t.Error(got)
		}
		if got, ok := IDOf("e" + string(id.Bytes())); got != id || !ok {
			t.Error(got, ok)
		}
		if after, ok := id.Next(); ok != (id != LastID) || ok && (!id.Less(after) || EntryName(id) >= EntryName(after)) {
			t.Errorf("behind %v stands %v", id, after)
		} else if before, _ := after.Previous(); ok && before != id {
			t.Errorf("before %v stands %v", after, before)
		}
		if _, ok := id.Previous(); ok != (id != ID{}) {
			t.Error(ok)
		}
	})
}

// Names sort among those of their group, and among no other's, whatever bytes they have.
func FuzzStreamNames(f *testing.F) {
	f.Add("g", "c", "h")
	f.Add("\xff", "\xff\xff", "\xff\xff")
	f.Add("", "", "\x00")
	f.Fuzz(func(t *testing.T, group, consumer, other string) {
		name := ConsumerName(group, consumer)
		if first, rest, ok := Split(name[1:]); first != group || rest != consumer || !ok {
			t.Errorf("%q %q", first, rest)
		}
		for _, g := range []string{group, other} {
			within := ConsumersOf(g) <= name && name < Ending(ConsumersOf(g))
			if within != (g == group) {
				t.Errorf("a consumer of %q is among those of %q: %t", group, g, within)
			}
		}
		Split(other)
	})
}

// FuzzStreamValues: written values are read, and a value that is read was written so.
func FuzzStreamValues(f *testing.F) {
	f.Add([]byte("\x01a\x01b"))
	f.Add((&Head{ID{1, 2}, ID{3, 4}, -5, Trimming}).Value())
	f.Add((&Group{ID{1, 2}, -1, 6}).Value())
	f.Add((&Consumer{1, 2, -1}).Value())
	f.Add((&Pending{At: 1, Times: 2, Consumer: "c"}).Value())
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, ok := FieldsOf(b); ok {
			if again, ok := FieldsOf(AppendFields(nil, list)); !ok || len(again) != len(list) || !slices.EqualFunc(list, again, slices.Equal) {
				t.Errorf("%q, %q", list, again)
			}
		}
		if v, ok := ParseHead(b); ok {
			if again, ok := ParseHead(v.Value()); again != v || !ok {
				t.Error(v, again)
			}
		}
		if v, ok := ParseGroup(b); ok {
			if again, ok := ParseGroup(v.Value()); again != v || !ok {
				t.Error(v, again)
			}
		}
		if v, ok := ParseConsumer(b); ok {
			if again, ok := ParseConsumer(v.Value()); again != v || !ok {
				t.Error(v, again)
			}
		}
		name := PendingName("g", ID{1, 2})
		if v, ok := ParsePending(name, b); ok {
			if again, ok := ParsePending(name, v.Value()); again != v || !ok {
				t.Error(v, again)
			}
		}
	})
}
