package feed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// said returns an event in words, and a dot after it if more of its group follow.
func said(t *testing.T, f *Feed, e *Event) string {
	text := fmt.Sprintf("%c %s", e.Op, e.Key)
	if e.Collection() != "" {
		text += " " + string(e.Collection())
	}
	if e.Element != nil {
		text += fmt.Sprintf(" [%s]", e.Element)
	}
	if e.Op == record.Set && (e.Element != nil || e.Collection() == "") {
		value, err := f.Value(e)
		if err != nil {
			t.Errorf("the value of %s: %v", text, err)
		}
		text += fmt.Sprintf("=%s", value[:min(len(value), 20)])
	}
	if e.From != nil {
		text += " from " + string(e.From)
	}
	if e.Created {
		text += " created"
	}
	if e.Drops {
		text += " dropped"
	}
	if e.More {
		text += " ."
	}
	return text
}

// wantSaid reads a feed from a number on to its end.
func wantSaid(t *testing.T, s *engine.Store, from uint64, of Of, want ...string) {
	t.Helper()
	f, err := Open(s, seglog.Position{Seq: from}, of)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for ctx := atEnd(f); ; {
		e, err := f.Next(ctx)
		if err != nil {
			break
		}
		got = append(got, said(t, f, &e))
	}
	if !slices.Equal(got, want) {
		t.Errorf("a feed after record %d yields\n%s\nwant\n%s", from, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func hset(t *testing.T, s *engine.Store, key string, words ...string) {
	t.Helper()
	storetest.Change(t, s, key, storetest.HSet(words...))
}

// TestFeedOfElements: changes of collections have events, and elements of those that are gone have
// none.
func TestFeedOfElements(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	hset(t, s, "hash", "a", "1", "b", "1")
	hset(t, s, "hash", "a", "2")
	hset(t, s, "other", "a", "1")
	hset(t, s, "hash", "a", "3", "b", "3")
	storetest.Change(t, s, "hash", append(storetest.HSet("", "empty"), storetest.HDel("a")...))
	storetest.Change(t, s, "hash", storetest.HDel("b"))
	hset(t, s, "hash gone", "a", "1")
	hset(t, s, "hash gone", "a", "2")
	storetest.Delete(t, s, "hash gone")
	storetest.Change(t, s, "hash", storetest.HDel(""))
	hset(t, s, "hash", "again", "1")
	wantSaid(t, s, 0, Prefix("hash"),
		"S hash hash created", // of the first one, which is gone by now, with its elements
		"S hash gone hash created",
		"D hash gone",
		"D hash",
		"S hash hash created .", "S hash hash [again]=1")
}

// TestFeedOfLiveElements is TestFeedOfElements while the collection is there.
func TestFeedOfLiveElements(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	hset(t, s, "hash", "a", "1", "b", "1")
	hset(t, s, "hash", "a", "2")
	hset(t, s, "other", "a", "1")
	hset(t, s, "hash", "a", "3", "b", "3")
	storetest.Change(t, s, "hash", append(storetest.HSet("", "empty"), storetest.HDel("a")...))
	storetest.Change(t, s, "hash", storetest.HDel("b"))
	large := strings.Repeat("large ", seglog.PartBytes/3)
	hset(t, s, "hash", "", large)
	if err := s.Redate([]byte("hash"), engine.HashType, 1<<41, engine.Process); err != nil {
		t.Fatal(err)
	}
	wantSaid(t, s, 0, Prefix("hash"),
		"S hash hash created .", "S hash hash [a]=1 .", "S hash hash [b]=1",
		"S hash hash [a]=2",
		"S hash hash [a]=3 .", "S hash hash [b]=3",
		"S hash hash []=empty .", "D hash hash [a]",
		"D hash hash [b]",
		"S hash hash []="+large[:20],
		"S hash hash")
}

// TestFeedOfRenamedCollections: changes before a collection was renamed have no event, and the
// renaming has.
func TestFeedOfRenamedCollections(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	hset(t, s, "k1", "a", "1")
	from := s.Log().Last()
	hset(t, s, "k1", "a", "2")
	renamed := s.Log().Last()
	if err := s.Rename([]byte("k1"), []byte("k2"), engine.HashType, engine.Process); err != nil {
		t.Fatal(err)
	}
	hset(t, s, "k2", "a", "3")
	wantSaid(t, s, from, Prefix("k"), "D k1 .", "S k2 hash from k1", "S k2 hash [a]=3")
	wantSaid(t, s, renamed, Key("k2"), "S k2 hash from k1", "S k2 hash [a]=3")
	if err := s.Redate([]byte("k2"), engine.HashType, 1<<41, engine.Process); err != nil {
		t.Fatal(err)
	}
	last := s.Log().Last()
	hset(t, s, "k2", "a", "4")
	wantSaid(t, s, last-1, Prefix("k"), "S k2 hash", "S k2 hash [a]=4")
}

// TestFeedOfCollectionsInATransaction: a transaction has events of entries, then of elements.
func TestFeedOfCollectionsInATransaction(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	for _, key := range []string{"k1", "k2", "other", "k3", "k4"} {
		hset(t, s, key, "a", "1")
	}
	from := s.Log().Last()
	err := s.Transact(engine.Process, func(tx *engine.Tx) error {
		change := func(key string, words ...string) error {
			return tx.Change([]byte(key), engine.HashType, func(*engine.Plan) ([]*engine.Edit, error) { return storetest.HSet(words...), nil })
		}
		return errors.Join(
			change("k1", "a", "2", "b", "2"), change("k2", "a", "2"), change("other", "a", "2"), change("k3", "a", "2"),
			change("k6", "a", "1"), change("k4", "a", "2"), tx.Rename([]byte("k4"), []byte("k5"), engine.HashType),
			tx.Rename([]byte("k6"), []byte("k7"), engine.HashType),
			tx.Write(nil, &engine.Write{Key: []byte("k"), Value: []byte("value")}))
	})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Delete(t, s, "k3")
	wantSaid(t, s, from, Prefix("k"),
		"S k=value .", "D k4 .", "S k5 hash from k4 .", "S k7 hash created .",
		"S k5 hash [a]=2 .", "S k1 hash [a]=2 .", "S k1 hash [b]=2 .", "S k2 hash [a]=2 .", "S k7 hash [a]=1",
		"D k3")
	wantSaid(t, s, from, Key("k2"), "S k2 hash [a]=2")
}

// TestFeedOfElementsWrittenAhead: in a group with other records in between, the last change of each
// element has an event, and so has a value whose key is an element's.
func TestFeedOfElementsWrittenAhead(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	hset(t, s, "h", "a", "1")
	e, err := s.Record([]byte("h"))
	if !engine.IsCollection(err) {
		t.Fatal(err)
	}
	c, err := collection.ParseMeta(e.Value)
	if err != nil {
		t.Fatal(err)
	}
	from, element := s.Log().Last(), fmt.Appendf(nil, "%x:a", c.ID)
	set := func(kind record.Kind, value string) *seglog.Pending {
		return &seglog.Pending{Head: record.Head{Op: record.Set, Kind: kind}, Key: element, Value: []byte(value)}
	}
	g := &seglog.Group{Log: s.Log()}
	defer g.End()
	if err := g.Ahead(set(record.Element, "2"), set(record.Element, "3"), set(record.Value, "raw")); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, s, "between", "1")
	if _, err := g.Commit(); err != nil {
		t.Fatal(err)
	}
	s.Log().Shown.Add(1)
	wantSaid(t, s, from, nil, "S between=1", fmt.Sprintf("S %s=raw .", element), "S h hash [a]=3")
}

// TestFeedOfMembersOfSortedSets: a member has one event, with its score.
func TestFeedOfMembersOfSortedSets(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	change := func(edits ...*engine.Edit) {
		t.Helper()
		err := s.Change([]byte("z"), engine.SortedSetType, engine.Process, func(*engine.Plan) ([]*engine.Edit, error) { return edits, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	change(&engine.Edit{Sub: []byte("mada"), Value: []byte("1")}, &engine.Edit{Sub: []byte("s1ada")})
	change(&engine.Edit{Sub: []byte("mada"), Value: []byte("2")}, &engine.Edit{Sub: []byte("s1ada"), Delete: true}, &engine.Edit{Sub: []byte("s2ada")})
	change(&engine.Edit{Sub: []byte("mbob"), Value: []byte("1")}, &engine.Edit{Sub: []byte("s1bob")})
	change(&engine.Edit{Sub: []byte("mada"), Delete: true}, &engine.Edit{Sub: []byte("s2ada"), Delete: true})
	wantSaid(t, s, 0, Prefix(nil), "S z zset created .", "S z zset [ada]=1", "S z zset [ada]=2", "S z zset [bob]=1", "D z zset [ada]")
}

// TestFeedOfADrop: the event of a dropped map has Drops set, and the event of a cleared one does
// not.
func TestFeedOfADrop(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	m, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Set(m, []byte("m:a"), []byte("1"), 0, engine.Process); err != nil {
		t.Fatal(err)
	}
	clears := func(tx *engine.Tx) error {
		return errors.Join(tx.DeleteRange(keyrange.Prefix([]byte("m:"))), tx.Write(m, &engine.Write{Key: []byte("m:b"), Value: []byte("2")}))
	}
	if err := s.Transact(engine.Process, clears); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop("m"); err != nil {
		t.Fatal(err)
	}
	wantSaid(t, s, 0, Prefix("m:"), "S m:a=1", "R m: .", "S m:b=2", "R m: dropped")
}

// TestFeedOfARenamedEmptyKey: a collection may have come from the empty key.
func TestFeedOfARenamedEmptyKey(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	hset(t, s, "", "a", "1")
	from := s.Log().Last()
	if err := s.Rename([]byte{}, []byte("x"), engine.HashType, engine.Process); err != nil {
		t.Fatal(err)
	}
	wantSaid(t, s, from, nil, "D  .", "S x hash from ")
}

// TestFeedOfElementsIsTheCallers: the keys of the elements of a group are not the same bytes.
func TestFeedOfElementsIsTheCallers(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	hset(t, s, "hash", "a", "1", "b", "1", "c", "1")
	f, err := Open(s, seglog.Position{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 4 {
		e, err := f.Next(t.Context())
		if err != nil || string(e.Key) != "hash" {
			t.Fatalf("%q, %v", e.Key, err)
		}
		e.Key[0] = 'X'
	}
}

// TestFeedForgetsPartsOfElements: it remembers nothing of large elements without events.
func TestFeedForgetsPartsOfElements(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	for _, key := range []string{"a", "b"} {
		hset(t, s, key, "large", strings.Repeat("v", seglog.PartBytes+1))
	}
	storetest.Set(t, s, "other", "1")
	f, err := Open(s, seglog.Position{}, Prefix("other"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if e, err := f.Next(t.Context()); err != nil || string(e.Key) != "other" || len(f.open) > 0 {
		t.Errorf("%q is yielded, %v, and %d values and groups are open", e.Key, err, len(f.open))
	}
}
