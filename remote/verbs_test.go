package remote

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/copaldb/copal"
)

// things are a store and a handle of each kind.
type things struct {
	db   *copal.DB
	m    *copal.Map[string, int]
	raw  *copal.Raw
	hash *copal.HashOf[string, int]
	set  *copal.SetOf[string]
	zset *copal.SortedSetOf[string]
	list *copal.ListOf[int]
}

func openThings(t *testing.T, db *copal.DB) *things {
	t.Helper()
	x := &things{db: db, raw: db.Raw()}
	var errs [5]error
	x.m, errs[0] = copal.OpenMap[string, int](db, "m")
	x.hash, errs[1] = copal.OpenHash[string, int](db, "hash")
	x.set, errs[2] = copal.OpenSet[string](db, "set")
	x.zset, errs[3] = copal.OpenSortedSet[string](db, "zset")
	x.list, errs[4] = copal.OpenList[int](db, "list")
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return x
}

// with returns things whose calls end with a context.
func (x *things) with(ctx context.Context) *things {
	return &things{x.db, x.m.WithContext(ctx), x.raw.WithContext(ctx), x.hash.WithContext(ctx), x.set.WithContext(ctx), x.zset.WithContext(ctx), x.list.WithContext(ctx)}
}

// fill has the collections and maps have what the verbs read and change.
func (x *things) fill() error {
	return errors.Join(x.m.Set("a", 1), x.m.Set("b", 2), x.m.SetTTL("t", 3, time.Hour), x.raw.Set([]byte("raw"), []byte("1")), x.hash.Set("f", 1), x.zset.Set("z", 1), x.list.PushBack(1, 2, 3),
		func() error { _, err := x.set.Add("s"); return err }())
}

// verb is a call of the API.
type verb struct {
	name   string
	copal  bool // it needs a server of copal
	silent bool // it has no error result
	store  bool // it takes no context
	writes bool
	many   bool // of them on a server that is no copal serve
	do     func(x *things) error
}

func plus[V int | float64](e *copal.Entry[V]) error { e.Value++; return nil }

// verbs are all verbs that reach a server, each in one of the ways in which it is used. Twins by
// durability and by direction, and ranges with other bounds, are left out where they send the same.
var verbs = []verb{
	{name: "Map.Get", silent: true, do: func(x *things) error { x.m.Get("a"); return nil }},
	{name: "Map.Peek", silent: true, do: func(x *things) error { x.m.Peek("a"); return nil }},
	{name: "Map.Load", do: func(x *things) error { _, err := x.m.Load("a"); return err }},
	{name: "Map.Has", silent: true, do: func(x *things) error { x.m.Has("a"); return nil }},
	{name: "Map.Len", silent: true, do: func(x *things) error { x.m.Len(); return nil }},
	{name: "Map.TTL", do: func(x *things) error { _, err := x.m.TTL("a"); return notMissing(err) }},
	{name: "Map.Set", writes: true, do: func(x *things) error { return x.m.Set("a", 3) }},
	{name: "Map.SetTTL", writes: true, do: func(x *things) error { return x.m.SetTTL("a", 3, time.Hour) }},
	{name: "Map.Expire", writes: true, do: func(x *things) error { return x.m.Expire("a", time.Hour) }},
	{name: "Map.Persist", writes: true, do: func(x *things) error { return x.m.Persist("t") }},
	{name: "Map.Delete", writes: true, do: func(x *things) error { _, err := x.m.Delete("b"); return err }},
	{name: "Map.Update", writes: true, do: func(x *things) error { _, _, err := x.m.Update("a", plus); return err }},
	{name: "Map.GetOrSet", writes: true, do: func(x *things) error { _, _, err := x.m.GetOrSet("c", 1); return err }},
	{name: "Map.GetAndDelete", writes: true, do: func(x *things) error { _, _, err := x.m.GetAndDelete("a"); return err }},
	{name: "Map.DeletePrefix", writes: true, many: true, do: func(x *things) error { return x.m.DeletePrefix("b") }},
	{name: "Map.Clear", writes: true, many: true, do: func(x *things) error { return x.m.Clear() }},
	{name: "Map.All", silent: true, do: func(x *things) error { return drain2(x.m.All()) }},
	{name: "Map.Keys", silent: true, do: func(x *things) error { return drain(x.m.Keys()) }},
	{name: "Map.Values", silent: true, do: func(x *things) error { return drain(x.m.Values()) }},
	{name: "Map.From", silent: true, copal: true, do: func(x *things) error { return drain2(x.m.From("a")) }},
	{name: "Map.Prefix", silent: true, copal: true, do: func(x *things) error { return drain2(x.m.Prefix("a")) }},
	{name: "Map.KeysBetween", silent: true, copal: true, do: func(x *things) error { return drain(x.m.KeysBetween("a", "c")) }},
	{name: "Map.Range", do: func(x *things) error { return x.m.Range(func(string, int) error { return nil }) }},
	{name: "Map.Sync", store: true, copal: true, do: func(x *things) error { return x.m.Sync() }},
	{name: "Raw.Load", do: func(x *things) error { _, err := x.raw.Load([]byte("raw")); return err }},
	{name: "Raw.Has", silent: true, do: func(x *things) error { x.raw.Has([]byte("raw")); return nil }},
	{name: "Raw.Len", silent: true, do: func(x *things) error { x.raw.Len(); return nil }},
	{name: "Raw.Type", do: func(x *things) error { _, err := x.raw.Type([]byte("hash")); return err }},
	{name: "Raw.Update", writes: true, do: func(x *things) error {
		_, _, err := x.raw.Update([]byte("raw"), func(e *copal.Entry[[]byte]) error { e.Value = []byte("2"); return nil })
		return err
	}},
	{name: "Raw.All", silent: true, copal: true, do: func(x *things) error { return drain2(x.raw.All()) }},
	{name: "Batch.Commit", writes: true, do: func(x *things) error {
		b := x.raw.Batch()
		b.Set([]byte("x"), []byte("1"))
		b.Set([]byte("y"), []byte("1"))
		return b.Commit()
	}},
	{name: "Hash.Get", silent: true, do: func(x *things) error { x.hash.Get("f"); return nil }},
	{name: "Hash.Load", do: func(x *things) error { _, err := x.hash.Load("f"); return err }},
	{name: "Hash.Has", silent: true, do: func(x *things) error { x.hash.Has("f"); return nil }},
	{name: "Hash.Len", silent: true, do: func(x *things) error { x.hash.Len(); return nil }},
	{name: "Hash.Count", silent: true, do: func(x *things) error { x.hash.Count("a", "z"); return nil }},
	{name: "Hash.Set", writes: true, do: func(x *things) error { return x.hash.Set("f", 2) }},
	{name: "Hash.SetAll", writes: true, do: func(x *things) error { return x.hash.SetAll(map[string]int{"g": 1, "h": 2}) }},
	{name: "Hash.Update", writes: true, do: func(x *things) error { _, _, err := x.hash.Update("f", plus); return err }},
	{name: "Hash.Delete", writes: true, do: func(x *things) error { _, err := x.hash.Delete("f"); return err }},
	{name: "Hash.All", silent: true, do: func(x *things) error { return drain2(x.hash.All()) }},
	{name: "Hash.Keys", silent: true, do: func(x *things) error { return drain(x.hash.Keys()) }},
	{name: "Hash.Ranked", silent: true, do: func(x *things) error { return drain2(x.hash.Ranked(0, 9)) }},
	{name: "Hash.Clear", writes: true, do: func(x *things) error { _, err := x.hash.Clear(); return err }},
	{name: "Hash.Rename", writes: true, do: func(x *things) error { return x.hash.Rename("hash2") }},
	{name: "Hash.Expire", writes: true, do: func(x *things) error { return x.hash.Expire(time.Hour) }},
	{name: "Hash.TTL", do: func(x *things) error { _, err := x.hash.TTL(); return notMissing(err) }},
	{name: "Set.Add", writes: true, do: func(x *things) error { _, err := x.set.Add("t", "u"); return err }},
	{name: "Set.Delete", writes: true, do: func(x *things) error { _, err := x.set.Delete("s"); return err }},
	{name: "Set.Has", silent: true, do: func(x *things) error { x.set.Has("s"); return nil }},
	{name: "Set.Len", silent: true, do: func(x *things) error { x.set.Len(); return nil }},
	{name: "Set.All", silent: true, do: func(x *things) error { return drain(x.set.All()) }},
	{name: "Set.Ranked", silent: true, do: func(x *things) error { return drain(x.set.Ranked(0, 9)) }},
	{name: "SortedSet.Set", writes: true, do: func(x *things) error { return x.zset.Set("y", 2) }},
	{name: "SortedSet.Update", writes: true, do: func(x *things) error { _, _, err := x.zset.Update("z", plus); return err }},
	{name: "SortedSet.Delete", writes: true, do: func(x *things) error { _, err := x.zset.Delete("z"); return err }},
	{name: "SortedSet.PopMin", writes: true, do: func(x *things) error { _, _, _, err := x.zset.PopMin(); return err }},
	{name: "SortedSet.Get", silent: true, do: func(x *things) error { x.zset.Get("z"); return nil }},
	{name: "SortedSet.Load", do: func(x *things) error { _, err := x.zset.Load("z"); return err }},
	{name: "SortedSet.Has", silent: true, do: func(x *things) error { x.zset.Has("z"); return nil }},
	{name: "SortedSet.Rank", silent: true, do: func(x *things) error { x.zset.Rank("z"); return nil }},
	{name: "SortedSet.Count", silent: true, do: func(x *things) error { x.zset.Count(0, 9); return nil }},
	{name: "SortedSet.All", silent: true, do: func(x *things) error { return drain2(x.zset.All()) }},
	{name: "SortedSet.From", silent: true, do: func(x *things) error { return drain2(x.zset.From(0)) }},
	{name: "SortedSet.Ranked", silent: true, do: func(x *things) error { return drain2(x.zset.Ranked(0, 9)) }},
	{name: "List.PushBack", writes: true, do: func(x *things) error { return x.list.PushBack(4) }},
	{name: "List.Push", writes: true, do: func(x *things) error { _, err := x.list.Push(true, 4, 5); return err }},
	{name: "List.Insert", writes: true, do: func(x *things) error { return x.list.Insert(1, 9) }},
	{name: "List.Set", writes: true, do: func(x *things) error { return x.list.Set(0, 9) }},
	{name: "List.PopFront", writes: true, do: func(x *things) error { _, _, err := x.list.PopFront(); return err }},
	{name: "List.DeleteRange", writes: true, do: func(x *things) error { return x.list.DeleteRange(1, 2) }},
	{name: "List.Get", silent: true, do: func(x *things) error { x.list.Get(0); return nil }},
	{name: "List.Load", do: func(x *things) error { _, err := x.list.Load(0); return err }},
	{name: "List.Len", silent: true, do: func(x *things) error { x.list.Len(); return nil }},
	{name: "List.All", silent: true, do: func(x *things) error { return drain(x.list.All()) }},
	{name: "Set of one value", writes: true, store: true, do: func(x *things) error { return copal.Set(x.db, "one", 1) }},
	{name: "DB.Sync", store: true, copal: true, do: func(x *things) error { return x.db.Sync() }},
	{name: "Map.SetFSync", writes: true, copal: true, do: func(x *things) error { return x.m.SetFSync("a", 5) }},
	{name: "DB.Snapshot", store: true, copal: true, do: func(x *things) error {
		s, err := x.db.Snapshot()
		if err != nil {
			return err
		}
		_, err = x.m.At(s).Load("a")
		return errors.Join(err, s.Close())
	}},
	{name: "DB.View", store: true, copal: true, do: func(x *things) error {
		return x.db.View(func(tx *copal.Tx) error { return drain2(x.m.In(tx).All()) })
	}},
	{name: "DB.Update", store: true, copal: true, writes: true, do: func(x *things) error {
		return x.db.Update(func(tx *copal.Tx) error { return x.m.In(tx).Set("a", 6) })
	}},
	{name: "DB.Watch", store: true, copal: true, do: func(x *things) error {
		for _, err := range x.db.Watch(context.Background(), copal.WithAfter(0)) {
			return err
		}
		return nil
	}},
}

// notMissing is err, except for an entry without a deadline.
func notMissing(err error) error {
	if errors.Is(err, copal.ErrNotFound) {
		return nil
	}
	return err
}

func drain[A any](seq func(func(A) bool)) error {
	seq(func(A) bool { return true })
	return nil
}

func drain2[A, B any](seq func(func(A, B) bool)) error {
	seq(func(A, B) bool { return true })
	return nil
}
