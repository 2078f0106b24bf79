package seglog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"

	"github.com/copaldb/copal/internal/vfs"
)

func TestGroupCountsFromItsCommit(t *testing.T) {
	records := []logtest.HandRecord{
		logtest.Rec(record.Set, record.Value, "a", "old"),
		logtest.Rec(record.Set, record.Value, "a", "new", logtest.InGroup(2)),
		logtest.Rec(record.Set, record.Value, "b", "between"), // of somebody else
		logtest.Rec(record.Delete, record.Value, "b", "", logtest.InGroup(2)),
		logtest.Rec(record.Set, record.Value, "c", "new", logtest.InGroup(2)),
		logtest.Rec(record.Commit, record.System, "", "3", logtest.InGroup(2)),
	}
	s := mustLog(t, logtest.Hand(t, records...))
	wantIn(t, s, "a", "new")
	wantGone(t, s, "b")
	wantIn(t, s, "c", "new")
	s = mustLog(t, logtest.Hand(t, records[:5]...)) // without its commit
	wantIn(t, s, "a", "old")
	wantIn(t, s, "b", "between")
	wantGone(t, s, "c")
	if n := len(s.keys()); n != 2 {
		t.Errorf("%d keys, want 2", n)
	}
	setIn(t, s, "d", "later") // a tail of members without a commit takes appends
	closeLog(t, s)

	records[5].Value = "4"
	if _, err := openLog(logtest.Hand(t, records...), inline); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a commit that names more members than there are: %v", err)
	}
}

func TestNewerRecordsAreRefused(t *testing.T) {
	for _, p := range []logtest.HandRecord{
		logtest.Rec('Z', record.Value, "k", ""),
		logtest.Rec(record.Set, 'z', "k", ""),
		logtest.Rec(record.Set, record.Value, "k", "", func(h *record.Head) { h.Other = " Anew" }),
	} {
		_, err := openLog(logtest.Hand(t, p, logtest.Rec(record.Set, record.Value, "after", "")), inline)
		if !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
			t.Errorf("%c%c%s: %v, want ErrVersion", p.Op, p.Kind, p.Other, err)
		}
	}
}

func TestSequenceWithoutGaps(t *testing.T) {
	for name, records := range map[string][]logtest.HandRecord{
		"gap":   {logtest.Rec(record.Set, record.Value, "a", ""), logtest.Rec(record.Set, record.Value, "b", "", func(h *record.Head) { h.Seq = 3 })},
		"twice": {logtest.Rec(record.Set, record.Value, "a", ""), logtest.Rec(record.Set, record.Value, "b", "", func(h *record.Head) { h.Seq = 1 })},
	} {
		if _, err := openLog(logtest.Hand(t, records...), inline); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadOnlyOfNothing(t *testing.T) {
	mem := vfs.NewMem()
	if _, err := openLog(mem, readsOnly); err == nil {
		t.Error("a directory that is missing opens read-only")
	}
	if names, err := mem.List("."); err == nil && slices.Contains(names, "db") {
		t.Error("opening read-only has made the directory")
	}
}

func TestManifestMissing(t *testing.T) {
	mem := logtest.Hand(t, logtest.Rec(record.Set, record.Value, "k", "v"))
	if err := mem.Remove("db/" + ManifestName); err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(mem, inline); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), ManifestName) {
		t.Errorf("Open: %v", err)
	}
}

// TestSegmentWithoutAManifest: a segment without a manifest may be somebody's data. Open refuses
// it, unless it holds no more than a header, and never changes it.
func TestSegmentWithoutAManifest(t *testing.T) {
	s := mustLog(t, vfs.NewMem())
	for i := range 100 {
		setIn(t, s, fmt.Sprint("key ", i), "value")
	}
	closeLog(t, s)
	whole, _, err := files.Read(s.FS, "db/00000001.log", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	head := int(s.set.Load().bySlot[0].Head)
	for what, x := range map[string]struct {
		text  string
		opens bool
		want  error
	}{
		"whole":                {string(whole), false, ErrCorrupt},
		"first record damaged": {strings.Replace(string(whole), "key 0", "kEy 0", 1), false, ErrCorrupt},
		"header damaged":       {strings.Replace(string(whole), "copal", "cOpal", 1), false, ErrCorrupt},
		"one torn record":      {string(whole[:head+10]), false, ErrCorrupt},
		"newer":                {strings.Replace(string(whole), "log 1", "log 2", 1), false, ErrCorrupt}, // its checksum is version 1's
		"not ours":             {"not of ours\n" + strings.Repeat("x", 5000), false, ErrCorrupt},
		"header alone":         {string(whole[:head]), true, nil},
		"torn header":          {string(whole[:head/2]), true, nil},
		"empty":                {"", true, nil},
	} {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("db"); err != nil {
			t.Fatal(err)
		}
		f, err := mem.Open("db/00000001.log", vfs.Create)
		if err == nil {
			_, err = f.WriteAt([]byte(x.text), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := openLog(mem, inline)
		if (err == nil) != x.opens || err != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: Open: %v", what, err)
		}
		if after, _, _ := files.Read(mem, "db/00000001.log", 1<<20); string(after) != x.text {
			t.Errorf("%s: opening has changed the file", what)
		}
		if err == nil {
			setIn(t, s, "x", "y")
			closeLog(t, s)
		}
	}
}
