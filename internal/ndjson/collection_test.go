package ndjson_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/ndjson"
)

var elements = []admin.Element{
	{Name: []byte(""), Value: []byte("v")},
	{Name: []byte("\xff"), Value: []byte("\x01\x02"), Codec: "binary", Schema: "[2]uint8"},
	{Name: []byte("n"), Value: []byte("12"), Codec: "json", Schema: "int"},
}

var around = []admin.Entry{
	{Key: []byte("a"), Value: []byte("1")},
	{Key: []byte("h"), Collection: "hash", Elements: 3, Expires: moment},
	{Key: []byte("z"), Value: []byte("2")},
}

// writeCollection writes entries from the n-th on.
func writeCollection(t testing.TB, w *ndjson.Writer, n int64) {
	t.Helper()
	for i := range around[n:] {
		e := &around[n:][i]
		if err := w.Entry(e); err != nil {
			t.Fatal(err)
		}
		for i := range e.Elements {
			if err := w.Element(&elements[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
}

// show returns the read lines, in a form that can be compared.
func show(in []byte) (list []string, bad []*ndjson.LineError, at ndjson.State) {
	r := ndjson.NewReader(bytes.NewReader(in))
	for {
		l, err := r.Next()
		e, ok := err.(*ndjson.LineError)
		switch {
		case err == io.EOF:
			return list, bad, r.State()
		case ok:
			bad = append(bad, e)
		case l.Kind == ndjson.Entry:
			list = append(list, fmt.Sprintf("%q %q %s %d %d", l.Entry.Key, l.Entry.Value, l.Entry.Collection, l.Entry.Elements, l.Entry.Expires.UnixMilli()))
		case l.Kind == ndjson.Element:
			list = append(list, fmt.Sprintf("  %q %q %s %s", l.Element.Name, l.Element.Value, l.Element.Codec, l.Element.Schema))
		}
	}
}

func exportOfCollection(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := ndjson.NewWriter(&out, ndjson.Head{Seq: 47, Time: moment})
	if err != nil {
		t.Fatal(err)
	}
	writeCollection(t, w, 0)
	return out.Bytes()
}

func TestCollection(t *testing.T) {
	out := exportOfCollection(t)
	const want = `{"copal":"export","version":1,"seq":47,"time":"2026-11-21T12:34:00.123Z"}
{"key":"a","value":1}
{"key":"h","expires":"2026-11-21T12:34:00.123Z","collection":"hash","elements":3}
{"element":"","text":"v"}
{"schema":1,"codec":"binary","type":"[2]uint8"}
{"element":{"base64":"/w=="},"schema":1,"base64":"AQI="}
{"schema":2,"codec":"json","type":"int"}
{"element":"n","schema":2,"value":12}
{"key":"z","value":2}
{"end":3,"crc32c":"`
	if !strings.HasPrefix(string(out), want) {
		t.Errorf("the lines are\n%s\nwant\n%s", out, want)
	}
	all, bad, at := show(out)
	if len(bad) > 0 || len(all) != 6 || !at.Ended || at.Entries != 3 || string(at.Key) != "z" {
		t.Fatalf("%q, %v, %+v", all, bad, at)
	}
	// Cut anywhere, the whole entries are there, and a writer goes on after the last whole one.
	for cut := bytes.IndexByte(out, '\n') + 1; cut < len(out); cut++ {
		list, bad, at := show(out[:cut])
		if !strings.HasPrefix(strings.Join(all, "\n"), strings.Join(list, "\n")) {
			t.Fatalf("cut at %d: %q", cut, list)
		}
		within := bytes.Contains(out[:cut], []byte(`"hash"`)) && !bytes.Contains(out[:cut], []byte("\"value\":12}\n"))
		if within && (at.Entries != 1 || at.Offset != int64(bytes.Index(out, []byte(`{"key":"h"`)))) {
			t.Fatalf("cut at %d: %d entries, to go on at %d", cut, at.Entries, at.Offset)
		}
		if within && len(bad) == 0 && !bytes.HasSuffix(out[:cut], []byte(`"elements":3}`)) && !bytes.HasSuffix(out[:cut], []byte("12}")) {
			t.Fatalf("cut at %d: nothing is missing", cut)
		}
		again := bytes.NewBuffer(bytes.Clone(out[:at.Offset]))
		w, err := ndjson.ContinueWriter(again, at, at.Head)
		if err != nil {
			t.Fatal(err)
		}
		writeCollection(t, w, at.Entries)
		if list, bad, at := show(again.Bytes()); len(bad) > 0 || !at.Ended || strings.Join(list, "\n") != strings.Join(all, "\n") {
			t.Fatalf("cut at %d, continued: %q, %v\n%s", cut, list, bad, again.Bytes())
		}
	}
}

// A missing line takes along the lines that need it, and is reported.
func TestCollectionDamaged(t *testing.T) {
	lines := bytes.SplitAfter(exportOfCollection(t), []byte{'\n'})
	for _, test := range []struct {
		without int // line, from 0
		put     string
		items   int
		bad     []string
	}{
		{2, "", 2, []string{"an element without its collection", "there should be 3 entries, and there are 2"}},
		{2, "{\n", 2, []string{"not a JSON object", "an element without its collection", "there should be 3 entries, and there are 2"}},
		{2, `{"key":"h","collection":"hash","elements":3,"value":1}` + "\n", 2, []string{"a collection with a value", "there should be 3 entries, and there are 2"}},
		{3, "", 5, []string{"1 elements of the collection under key \"h\" are missing", "there should be 3 entries, and there are 2"}},
		{3, "{\n", 5, []string{"not a JSON object", "1 elements of", "there should be 3 entries, and there are 2"}},
		{3, `{"element":"","bytes":3}` + "\n" + `{"part":2,"text":"abc"}` + "\n", 5, []string{"it is part 2", "1 elements of", "there should be 3 entries, and there are 2"}},
		{3, string(lines[3]) + string(lines[3]), 6, []string{"an element without its collection", "checksum"}},
	} {
		in := append(bytes.Join(lines[:test.without], nil), test.put...)
		in = append(in, bytes.Join(lines[test.without+1:], nil)...)
		list, bad, _ := show(in)
		ok := len(bad) == len(test.bad) && len(list) == test.items
		for i := range min(len(bad), len(test.bad)) {
			ok = ok && strings.Contains(bad[i].Reason, test.bad[i])
		}
		if !ok {
			t.Errorf("line %d is %q: %q, %v", test.without, test.put, list, bad)
		}
	}
}

func TestWriterCountsElements(t *testing.T) {
	w, err := ndjson.NewWriter(io.Discard, ndjson.Head{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Element(&elements[0]); err == nil {
		t.Error("an element without a collection is written")
	}
	if err := w.Entry(&around[1]); err != nil {
		t.Fatal(err)
	}
	if err := w.Entry(&around[2]); err == nil {
		t.Error("an entry is written before the elements of the one before")
	}
	if err := w.End(); err == nil {
		t.Error("the end is written before all elements")
	}
}
