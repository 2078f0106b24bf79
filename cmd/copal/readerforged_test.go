package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/pagetest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// forged is a store that is written by hand, as docs/format.md says.
type forged struct {
	manifest string // its lines after the first two
	edit     int
	floor    uint64
	files    map[string][]byte
}

const (
	forgedStore = 0x77aa00000000beef
	forgedSalt  = 0x5f3a91c2d4e5f607
)

// forgedSegment returns the text of a segment: its first line, and records.
func forgedSegment(id string, records ...forgedRecord) []byte {
	segment, err := record.ParseSegmentID(id)
	if err != nil {
		panic(err)
	}
	h := record.SegmentHeader{ID: segment, Salt: forgedSalt, Start: 946684800000, Store: forgedStore}
	if segment.Generation() > 0 {
		h.Through = segment.Order()
	}
	text := h.Append(nil)
	for i := range records {
		text = records[i].append(text)
	}
	return text
}

type forgedRecord struct {
	record.Head
	key, value string
}

func (r *forgedRecord) append(text []byte) []byte {
	return record.Salt(forgedSalt).Append(text, int64(len(text)), &r.Head, []byte(r.key), []byte(r.value))
}

// rec returns a record of its first words, as "Sv" or "Cs", a number, and its group, 0 for none.
func rec(opKind string, seq, group uint64, key, value string) forgedRecord {
	r := forgedRecord{record.Head{Op: record.Op(opKind[0]), Kind: record.Kind(opKind[1]), Seq: seq, Group: group}, key, value}
	if r.Op == record.Part {
		r.Owner = seq
	}
	return r
}

// write writes the store to a directory.
func (x *forged) write(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	body := fmt.Sprintf("copal manifest 1\nstore %016x created dc6acfac00 edit %x floor %x\n%send", uint64(forgedStore), max(x.edit, 1), x.floor, x.manifest)
	files := maps.Clone(x.files)
	files[seglog.ManifestName] = record.Seal([]byte(body))
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// line returns the manifest's line of a segment.
func line(word, id string, bytes, records int, first, last uint64) string {
	return fmt.Sprintf("%s %s salt %016x bytes %x records %x first %x last %x\n", word, id, uint64(forgedSalt), bytes, records, first, last)
}

const forgedWriting = "writing 0000000000000000 cache - file -\n"

// keyCount returns the answer for a sound store with so many keys.
func keyCount(keys int64) pagetest.Answer { return pagetest.Answer{Verdict: "sound", Keys: keys} }

// tornBytes returns the same as keyCount, with so many bytes that do not count.
func tornBytes(keys, torn int64) pagetest.Answer {
	return pagetest.Answer{Verdict: "sound", Keys: keys, Torn: torn}
}

var (
	isDamaged = pagetest.Answer{Verdict: "damaged"}
	isNewer   = pagetest.Answer{Verdict: "newer"}
)

// TestReaderOfForgedStores asks the questions that docs/format.md answers: copal and the reader
// give the page's answer on stores that seldom come about.
func TestReaderOfForgedStores(t *testing.T) {
	r := pagetest.Start(t)
	one := forgedSegment("1", rec("Sv", 1, 0, "a", "1"), rec("Sv", 2, 0, "b", "2"))
	head := len(forgedSegment("1"))
	alone := func(text []byte, more string) forged {
		return forged{manifest: line("open", "1", head, 0, 0, 0) + more, files: map[string][]byte{"00000001.log": text}}
	}
	closed := func(records ...forgedRecord) forged {
		text := forgedSegment("1", records...)
		return forged{manifest: line("open", "1", len(text), len(records), records[0].Seq, records[len(records)-1].Seq), files: map[string][]byte{"00000001.log": text}}
	}
	marked := func(mark []byte) forged {
		x := closed(rec("Sv", 1, 0, "a", "1"))
		x.files["SYNCED"] = mark
		return x
	}
	later := func(seconds ...uint64) (list []forgedRecord) {
		for i, s := range seconds {
			list = append(list, rec("Sv", uint64(i)+1, 0, fmt.Sprint("k", i), "v"))
			list[i].Time = 1000 * s
		}
		return list
	}
	end := rec("Ev", 2, 0, "a", "")
	ended := end
	ended.Expiry = 946684801000
	compacted := func(last uint64, behind ...forgedRecord) forged {
		old := forgedSegment("1-1", rec("Sv", 5, 0, "a", "1"))
		return forged{floor: 4, manifest: line("sealed", "1-1", len(old), 1, 1, last) + line("open", "2", head, 0, 0, 0) + forgedWriting,
			files: map[string][]byte{"00000001-00000001.log": old, "00000002.log": forgedSegment("2", behind...)}}
	}
	slot := func(edit, manifest int, version string) []byte {
		return record.SealPadded(fmt.Sprintf("copal synced %s store %016x edit %x manifest %x segment 1 offset %x seq 0 sync good", version, uint64(forgedStore), edit, manifest, head), 512)
	}
	for name, c := range map[string]struct {
		store forged
		want  pagetest.Answer
	}{
		"whole":                                {alone(one, forgedWriting), keyCount(2)},
		"torn: no record":                      {alone(append(bytes.Clone(one), "garbage"...), forgedWriting), tornBytes(2, 7)},
		"torn: zeros":                          {alone(append(bytes.Clone(one), make([]byte, 4096)...), forgedWriting), tornBytes(2, 4096)},
		"torn: a record is cut short":          {alone(one[:len(one)-1], forgedWriting), tornBytes(1, int64(len(one)-1-len(forgedSegment("1", rec("Sv", 1, 0, "a", "1")))))},
		"torn: a whole record behind no one":   {alone(append(forgedSegment("1"), append([]byte("x"), one[head:]...)...), forgedWriting), tornBytes(0, int64(1+len(one)-head))},
		"torn, in a store that was closed":     {closed(rec("Sv", 1, 0, "a", "1")).with("00000001.log", "garbage"), isDamaged},
		"records behind the end of a closed":   {alone(one, ""), keyCount(2)},
		"an open segment without a record":     {alone(forgedSegment("1"), ""), keyCount(0)},
		"shorter than its first line":          {alone(forgedSegment("1")[:40], forgedWriting), isDamaged},
		"a first line without a line feed":     {alone(forgedSegment("1")[:head-1], forgedWriting), isDamaged},
		"empty":                                {alone(nil, forgedWriting), isDamaged},
		"a file word of other bytes":           {alone(one, "writing 0000000000000000 cache a:b/c=ü file !~\x7f\n"), keyCount(2)},
		"a file word of 128 bytes":             {alone(one, "writing 0000000000000000 cache - file "+strings.Repeat("x", 128)+"\n"), keyCount(2)},
		"a file word of 129 bytes":             {alone(one, "writing 0000000000000000 cache - file "+strings.Repeat("x", 129)+"\n"), isDamaged},
		"no file word":                         {alone(one, "writing 0000000000000000 cache - file \n"), isDamaged},
		"no file":                              {alone(one, "writing 0000000000000000 cache -\n"), isDamaged},
		"two words of a file":                  {alone(one, "writing 0000000000000000 cache - file a b\n"), isDamaged},
		"two lines writing":                    {alone(one, forgedWriting+forgedWriting), isDamaged},
		"two lines history":                    {alone(one, "history 0 time 0 for ever\nhistory 0 time 0 for ever\n"), isDamaged},
		"an unknown line":                      {alone(one, "something new\n"+forgedWriting), keyCount(2)},
		"an unknown line that must be known":   {alone(one, "Something new\n"+forgedWriting), isNewer},
		"no bytes of a segment":                {forged{manifest: line("open", "1", 0, 0, 0, 0) + forgedWriting, files: map[string][]byte{"00000001.log": one}}, isDamaged},
		"a segment that ends before it begins": {forged{manifest: line("open", "1", head, 0, 3, 2) + forgedWriting, files: map[string][]byte{"00000001.log": one}}, isDamaged},
		"a member that is a schema":            {closed(rec("St", 1, 1, "1", "json int"), rec("Cs", 2, 1, "", "1")), keyCount(0)},
		"members of all kinds": {closed(rec("St", 1, 1, "1", "json int"), rec("Ss", 2, 1, "map:m", ""), rec("Rv", 3, 1, "x", ""), rec("Sv", 4, 1, "m:a", "1"),
			rec("Dv", 5, 1, "b", ""), rec("Pv", 6, 1, "c", "part"), rec("Cs", 7, 1, "", "6")), keyCount(1)},
		"a commit that counts itself":         {closed(rec("Sv", 1, 1, "a", "1"), rec("Cs", 2, 1, "", "2")), isDamaged},
		"a commit that counts fewer":          {closed(rec("Sv", 1, 1, "a", "1"), rec("Sv", 2, 1, "b", "1"), rec("Cs", 3, 1, "", "1")), isDamaged},
		"a group without its commit":          {closed(rec("Sv", 1, 1, "a", "1")), keyCount(0)},
		"members left out below the last":     {compacted(9, rec("Cs", 0xa, 8, "", "2")), keyCount(1)},
		"a member left out of the next group": {compacted(9, rec("Cs", 0xa, 0xa, "", "1")), isDamaged},
		"members left out, and there is none": {compacted(5, rec("Cs", 6, 6, "", "2")), isDamaged},
		"members left out below the first":    {compacted(5, rec("Cs", 6, 4, "", "2")), keyCount(1)},
		"a record behind the last":            {compacted(9, rec("Sv", 0xa, 0, "b", "2")), keyCount(2)},
		"a record that repeats a number":      {compacted(9, rec("Sv", 9, 0, "b", "2")), isDamaged},
		"no slot can be read":                 {marked(bytes.Repeat([]byte{'x'}, 1024)), keyCount(1)},
		"both slots are zeros":                {marked(make([]byte, 1024)), keyCount(1)},
		"SYNCED is empty":                     {marked(nil), keyCount(1)},
		"one slot can be read":                {marked(append(slot(1, 1, "1"), bytes.Repeat([]byte{'x'}, 512)...)), keyCount(1)},
		"an older slot is half overwritten":   {marked(append(slot(1, 1, "1"), slot(2, 1, "1")[:100]...)), keyCount(1)},
		"a slot of a later manifest":          {marked(append(make([]byte, 512), slot(2, 7, "1")...)), isDamaged},
		"a slot of a newer version":           {marked(append(slot(1, 1, "1"), slot(2, 1, "2")...)), isNewer},
		"a time that goes back":               {closed(later(5, 9, 3, 9)...), keyCount(4)},
		"an end without its deadline":         {closed(rec("Sv", 1, 0, "a", "1"), end), isDamaged},
		"an end":                              {closed(rec("Sv", 1, 0, "a", "1"), ended), keyCount(0)},
	} {
		t.Run(name, func(t *testing.T) {
			got := wantSame(t, r, c.store.write(t), name)
			if got.Verdict != c.want.Verdict || got.Verdict == "sound" && (got.Keys != c.want.Keys || got.Torn != c.want.Torn) {
				t.Errorf("the store is %s, with %d keys and %d torn bytes; want %s, %d and %d; %s", got.Verdict, got.Keys, got.Torn, c.want.Verdict, c.want.Keys, c.want.Torn, got.Why)
			}
		})
	}
	// Beyond a hole all counts as torn but the first line.
	lost := forgedSegment("2", rec("Sv", 4, 0, "c", "3"), rec("Sv", 5, 0, "d", "4"))
	third := forgedSegment("3", rec("Sv", 6, 0, "e", "5"))
	x := alone(append(bytes.Clone(one), "torn"...), line("open", "2", head, 0, 0, 0)+line("open", "3", head, 0, 0, 0)+forgedWriting)
	x.files["00000002.log"], x.files["00000003.log"] = lost, third
	got := wantSame(t, r, x.write(t), "a hole")
	if want := int64(4 + len(lost) - head + len(third) - head); got.Verdict != "sound" || got.Keys != 2 || got.Torn != want {
		t.Errorf("with a hole the store is %s, with %d keys and %d torn bytes, want %d; %s", got.Verdict, got.Keys, got.Torn, want, got.Why)
	}
	x.files["00000002.log"] = forgedSegment("2", rec("Sv", 3, 0, "c", "3"))
	x.files["00000003.log"] = forgedSegment("3", rec("Sv", 4, 0, "e", "5"))
	if got := wantSame(t, r, x.write(t), "a torn segment with others behind it"); got.Verdict != "sound" || got.Keys != 4 || got.Torn != 4 {
		t.Errorf("behind a torn segment that lacks nothing there are %d keys, and %d torn bytes; %s", got.Keys, got.Torn, got.Why)
	}
}

// with returns the store with bytes appended to a file.
func (x forged) with(name, more string) forged {
	x.files = maps.Clone(x.files)
	x.files[name] = append(bytes.Clone(x.files[name]), more...)
	return x
}
