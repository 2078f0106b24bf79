package ndjson_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/ndjson"
)

var update = flag.Bool("update", false, "rewrite the golden file")

var moment = time.UnixMilli(1795264440123)

// sample has every form of line, and values at which forms change.
func sample() []admin.Entry {
	return []admin.Entry{
		{Key: []byte(""), Value: []byte("")},
		{Key: []byte("\xff\x00"), Value: []byte("\x00\x01\xfe")},
		{Key: []byte("a\"\\\n\x7f\u2028"), Value: []byte("plain text, \"quoted\"\n\ttabbed"), Expires: moment},
		{Key: []byte("control"), Value: bytes.Repeat([]byte{1}, 100)},
		{Key: []byte("json"), Value: []byte(`{"Name": "Alice",  "Age":1e400, "Age":2}`), Codec: "json", Schema: "struct{Name string; Age int}"},
		{Key: []byte("json, spaced"), Value: []byte(" 1"), Expires: time.UnixMilli(300000000000000)},
		{Key: []byte("json, on two lines"), Value: []byte("[1,\n2]")},
		{Key: []byte("json, not UTF-8"), Value: []byte("\"\xff\"")},
		{Key: []byte("json, half a surrogate"), Value: []byte(`"\ud800"`)},
		{Key: []byte("like a form"), Value: []byte(`{"base64":"AA=="}`), Codec: "own-1", Schema: "what\never \xff"},
		{Key: []byte("number"), Value: []byte("12345678901234567890.10"), Codec: "json", Schema: "float64"},
		{Key: []byte("users:a"), Value: []byte("\x05Alice\x38"), Codec: "binary", Schema: "struct{Name string; Age int}", Expires: moment.Add(time.Millisecond)},
		{Key: []byte("users:b"), Value: []byte("Bob"), Codec: "binary", Schema: "struct{Name string; Age int}"},
	}
}

func write(t testing.TB, entries []admin.Entry, change ...func(*ndjson.Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := ndjson.NewWriter(&out, ndjson.Head{Seq: 47, Time: moment})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(w)
	}
	if err := errors.Join(w.Map("users"), w.Map("a\xff:")); err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := w.Entry(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	if w.State().Offset != int64(out.Len()) {
		t.Errorf("State says %d bytes, there are %d", w.State().Offset, out.Len())
	}
	return out.Bytes()
}

// read is all that a Reader finds, with the errors of lines.
func read(t testing.TB, in []byte, loose bool) (entries []admin.Entry, bad []*ndjson.LineError, r *ndjson.Reader) {
	t.Helper()
	r = ndjson.NewReader(bytes.NewReader(in))
	r.Loose = loose
	for {
		l, err := r.Next()
		var e *ndjson.LineError
		switch {
		case err == io.EOF:
			return entries, bad, r
		case errors.As(err, &e):
			bad = append(bad, e)
		case errors.Is(err, ndjson.ErrVersion):
			return entries, bad, r
		case err != nil:
			t.Fatalf("%v", err)
		case l.Kind == ndjson.Entry:
			entries = append(entries, l.Entry)
		}
	}
}

func same(a, b []admin.Entry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if !bytes.Equal(x.Key, y.Key) || !bytes.Equal(x.Value, y.Value) || x.Codec != y.Codec || x.Schema != y.Schema || !x.Expires.Equal(y.Expires) || x.Expires.IsZero() != y.Expires.IsZero() {
			return false
		}
	}
	return true
}

func TestGolden(t *testing.T) {
	entries := sample()
	entries[1].Seq, entries[1].Time = 46, moment
	got := write(t, entries, func(w *ndjson.Writer) { w.Seq = true })
	const file = "testdata/export.ndjson"
	if *update {
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the lines are\n%s\nand those of %s\n%s", got, file, want)
	}
	if back, bad, _ := read(t, want, false); len(bad) > 0 || !same(back, entries) || back[1].Seq != 46 || !back[1].Time.Equal(moment) {
		t.Errorf("read: %+v, %v", back, bad)
	}
}

// Values of more than a part, of every kind of bytes, at the lengths where something changes.
func TestLargeValues(t *testing.T) {
	const part = 1 << 20
	rnd := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 3*part+5)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	var entries []admin.Entry
	for _, n := range []int{part - 1, part, part + 1, 2 * part, 3*part + 5} {
		entries = append(entries, admin.Entry{Key: fmt.Appendf(nil, "random %d", n), Value: random[:n]},
			admin.Entry{Key: fmt.Appendf(nil, "text %d", n), Value: []byte(strings.Repeat("é\n", n/3+1)[:n])},
			admin.Entry{Key: fmt.Appendf(nil, "json %d", n), Value: []byte(`"` + strings.Repeat("x", n-2) + `"`), Codec: "json", Schema: "string"})
	}
	out := write(t, entries)
	if back, bad, r := read(t, out, false); len(bad) > 0 || !same(back, entries) || !r.State().Ended {
		t.Errorf("%d of %d entries, %v", len(back), len(entries), bad)
	}
	of := ""
	for i, line := range bytes.Split(out, []byte{'\n'}) {
		if len(line) > 3*part/2 {
			t.Errorf("line %d has %d bytes", i+1, len(line))
		}
		if bytes.HasPrefix(line, []byte(`{"key":`)) {
			of = string(line[:12])
		}
		if text := bytes.Contains(line[:min(len(line), 30)], []byte(`"text":`)); bytes.HasPrefix(line, []byte(`{"part":`)) && text != (of != `{"key":"rand`) && !lastOfText(line) {
			t.Errorf("line %d of %s is %.30s", i+1, of, line)
		}
	}
}

// lastOfText is a part that ends where the test has cut a character.
func lastOfText(line []byte) bool { return len(line) < 1<<20 || bytes.HasSuffix(line, []byte(`w=="}`)) }

// A part that is missing takes its value along, and nothing else; nor does one that is none.
func TestPartIsMissing(t *testing.T) {
	entries := []admin.Entry{{Key: []byte("a"), Value: bytes.Repeat([]byte{0xff}, 2<<20+5)}, {Key: []byte("b"), Value: []byte("b")}}
	lines := bytes.SplitAfter(write(t, entries), []byte{'\n'})
	for i, line := range lines {
		if !bytes.HasPrefix(line, []byte(`{"part":2`)) {
			continue
		}
		cut := bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
		broken := bytes.Join(append(append(append([][]byte{}, lines[:i]...), []byte("{\n")), lines[i+1:]...), nil)
		for _, in := range [][]byte{cut, broken} {
			back, bad, _ := read(t, in, false)
			if len(bad) != 2 || len(back) != len(entries)-1 || !strings.Contains(bad[1].Reason, "there should be 2 entries, and there are 1") {
				t.Fatalf("without line %d: %d entries, %v", i+1, len(back), bad)
			}
			if at := in[bad[0].Offset:]; !bytes.HasPrefix(at, []byte(`{"key":`)) {
				t.Errorf("the offset %d is that of %.20q", bad[0].Offset, at)
			}
		}
	}
}

// A file that is cut anywhere gives the entries that are whole, and says that the rest is missing.
func TestCutAtEveryByte(t *testing.T) {
	entries := sample()
	out := write(t, entries)
	ends := []int{} // of the lines of entries
	for at := 0; at < len(out); {
		n := bytes.IndexByte(out[at:], '\n')
		if bytes.HasPrefix(out[at:], []byte(`{"key":`)) {
			ends = append(ends, at+n)
		}
		at += n + 1
	}
	for cut := range out {
		back, bad, r := read(t, out[:cut], false)
		want := 0
		for want < len(ends) && ends[want] <= cut {
			want++
		}
		if !same(back, entries[:want]) {
			t.Fatalf("cut at %d: %d entries, want %d", cut, len(back), want)
		}
		if len(bad) > 1 || len(bad) == 1 && (!bad[0].Last || bad[0].Offset != int64(bytes.LastIndexByte(out[:cut], '\n')+1)) {
			t.Fatalf("cut at %d: %v", cut, bad)
		}
		if whole := cut == 0 || out[cut-1] == '\n'; whole && len(bad) > 0 {
			t.Fatalf("cut at %d, behind a line: %v", cut, bad)
		}
		if good := r.State(); good.Ended || good.Offset != int64(bytes.LastIndexByte(out[:cut], '\n')+1) {
			t.Fatalf("cut at %d: the lines are good up to %d, ended %v", cut, good.Offset, good.Ended)
		}
		// Continued there, it is the same, but for the line that says so.
		if len(bad) == 0 && r.State().Lines > 0 {
			checkContinued(t, out[:r.State().Offset], entries, r.State())
		}
	}
}

func checkContinued(t *testing.T, head []byte, entries []admin.Entry, at ndjson.State) {
	t.Helper()
	out := bytes.NewBuffer(bytes.Clone(head))
	w, err := ndjson.ContinueWriter(out, at, at.Head)
	if err != nil {
		t.Fatal(err)
	}
	for i := at.Entries; i < int64(len(entries)); i++ {
		if err := w.Entry(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	if back, bad, r := read(t, out.Bytes(), false); len(bad) > 0 || !same(back, entries) || !r.State().Ended {
		t.Fatalf("continued at %d: %d entries, %v", len(head), len(back), bad)
	}
}

// No flipped bit goes unnoticed, and none hides more than the lines that it touches.
func TestFlippedAtEveryBit(t *testing.T) {
	entries := sample()[:6]
	out := write(t, entries)
	for i := range out {
		for bit := range 8 {
			in := bytes.Clone(out)
			in[i] ^= 1 << bit
			r := ndjson.NewReader(bytes.NewReader(in))
			found, n := false, 0
			for {
				l, err := r.Next()
				if err == io.EOF {
					break
				}
				if err == nil && l.Kind == ndjson.Entry {
					n++
				}
				var e *ndjson.LineError
				if found = found || err != nil; err != nil && !errors.As(err, &e) {
					if !errors.Is(err, ndjson.ErrVersion) {
						t.Fatal(err)
					}
					n = len(entries)
					break
				}
			}
			if !found && r.State().Ended {
				t.Fatalf("bit %d of byte %d, %q: nothing is wrong", bit, i, in[max(0, i-20):i+1])
			}
			if n < len(entries)-2 && i > bytes.IndexByte(out, '\n') {
				t.Fatalf("bit %d of byte %d: %d of %d entries", bit, i, n, len(entries))
			}
		}
	}
}

func TestRefused(t *testing.T) {
	begin := `{"copal":"export","version":1,"seq":1,"time":"2026-11-21T12:34:00.123Z"}` + "\n"
	for _, test := range []struct{ lines, want string }{
		{begin + `{"key":"a","value":1,"value":2}`, `two fields "value"`},
		{begin + `{"key":"a","value":1,"text":""}`, "one alone"},
		{begin + `{"key":"a"}`, "one of value"},
		{begin + `{"key":"a","Value":1}`, `no field "Value"`},
		{begin + `{"key":"a","value":1,}`, "not a JSON object"},
		{begin + `{"key":"a","value":01}`, "not JSON"},
		{begin + `{"key":"a","value":[1}}`, "not JSON"},
		{begin + `{"key":"\ud800","value":1}`, "escape"},
		{begin + `{"key":"\ud800x","value":1}`, "escape"},
		{begin + `{"key":"\ud800\u0041","value":1}`, "escape"},
		{begin + `{"key":"\x61","value":1}`, "escape"},
		{begin + "{\"key\":\"\xff\",\"value\":1}", "UTF-8"},
		{begin + `{"key":"a","base64":"AB=="}`, "not base64"},
		{begin + `{"key":{"base64":"AA==","x":1},"value":1}`, "beside base64"},
		{begin + `{"key":{},"value":1}`, "neither"},
		{begin + `{"key":1,"value":1}`, "not a string"},
		{begin + `{"key":"a","schema":1,"value":1}`, "no schema"},
		{begin + `{"schema":0,"codec":"json","type":"int"}`, "the next is 1"},
		{begin + `{"key":"a","expires":"tomorrow","value":1}`, "no time"},
		{begin + `{"key":"a","expires":0,"value":1}`, "no deadline"},
		{begin + `{"key":"a","bytes":-1}`, "a value of"},
		{begin + `{"key":"a","bytes":2,"text":"ab"}`, "parts of one"},
		{begin + `{"key":"a","bytes":2}` + "\n" + `{"part":1,"text":"abc"}`, "not possible"},
		{begin + `{"key":"a","bytes":2}` + "\n" + `{"part":2,"text":"ab"}`, "it is part 2"},
		{begin + `{"part":1,"text":"abc"}`, "without its entry"},
		{begin + `{"map":"a","value":1}`, `a field "value"`},
		{begin + `{"end":1,"crc32c":"00000000"}`, "there should be 1"},
		{begin + `{"end":0,"crc32c":"00000000"}`, "checksum"},
		{begin + begin, "has no end"},
		{`{"key":"a","value":1}`, "the first line"},
		{`{"copal":"backup"}`, "not an export"},
		{`{"copal":"continued","seq":1,"time":1}`, "nothing to continue"},
		{begin + `[]`, "not a JSON object"},
		{begin, ""},
		{begin + `{"key":"a","bytes":0}`, ""},
		{begin + ` { "key" : "\ud83d\ude00" , "value" : [ 1 , 2 ] } ` + "\r\n", ""},
	} {
		_, bad, _ := read(t, []byte(test.lines), false)
		switch {
		case test.want == "" && len(bad) > 0:
			t.Errorf("%s: %v", test.lines, bad)
		case test.want != "" && (len(bad) != 1 || !strings.Contains(bad[0].Reason, test.want)):
			t.Errorf("%s: %v, want %q", test.lines, bad, test.want)
		}
	}
	r := ndjson.NewReader(strings.NewReader(`{"copal":"export","version":2,"seq":1,"time":0}`))
	if _, err := r.Next(); !errors.Is(err, ndjson.ErrVersion) {
		t.Errorf("a newer version: %v", err)
	}
}

// Without an export around them, entries are lines that a person or a script writes.
func TestLoose(t *testing.T) {
	got, bad, _ := read(t, []byte(`{"key":"a","value":{"x":1}}`+"\n1\n\n"+`{"text":"b","key":"b"}`), true)
	want := []admin.Entry{{Key: []byte("a"), Value: []byte(`{"x":1}`)}, {Key: []byte("b"), Value: []byte("b")}}
	if !reflect.DeepEqual(got, want) || len(bad) != 1 || bad[0].Line != 2 || bad[0].Offset != 28 || bad[0].Last {
		t.Errorf("%+v, %v", got, bad)
	}
}

// FuzzReader: whatever the lines say is written, and read as the same.
func FuzzReader(f *testing.F) {
	f.Add(write(f, sample()))
	f.Add(exportOfCollection(f))
	f.Add([]byte(`{"key":"a","bytes":3}` + "\n" + `{"part":1,"text":"ab"}` + "\n" + `{"part":2,"base64":"AA=="}` + "\n"))
	f.Add([]byte(`{"copal":"continued","seq":1,"time":1}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, loose := range []bool{false, true} {
			list := wholes(t, in, loose)
			var out bytes.Buffer
			w, err := ndjson.NewWriter(&out, ndjson.Head{})
			for i := range list {
				if err == nil {
					err = w.Entry(&list[i].entry)
				}
				for k := range list[i].elements {
					if err == nil {
						err = w.Element(&list[i].elements[k])
					}
				}
			}
			if err = errors.Join(err, w.End()); err != nil {
				t.Fatal(err)
			}
			if again := wholes(t, out.Bytes(), false); fmt.Sprint(again) != fmt.Sprint(list) {
				t.Fatalf("%v are written as\n%s\nand read as %v", list, out.Bytes(), again)
			}
		}
	})
}

// whole is an entry and its elements.
type whole struct {
	entry    admin.Entry
	elements []admin.Element
}

// wholes are the entries that a Reader finds, with all of their elements.
func wholes(t testing.TB, in []byte, loose bool) (list []whole) {
	r := ndjson.NewReader(bytes.NewReader(in))
	r.Loose = loose
	for {
		l, err := r.Next()
		var e *ndjson.LineError
		switch {
		case err == io.EOF || errors.Is(err, ndjson.ErrVersion):
			return slices.DeleteFunc(list, func(w whole) bool { return int64(len(w.elements)) != w.entry.Elements })
		case errors.As(err, &e):
			if e.Line < 1 || e.Offset < 0 || e.Offset > int64(len(in)) {
				t.Fatalf("%v in %d bytes", e, len(in))
			}
		case err != nil:
			t.Fatal(err)
		case l.Kind == ndjson.Entry:
			l.Entry.Seq, l.Entry.Time = 0, time.Time{}
			list = append(list, whole{entry: l.Entry})
		case l.Kind == ndjson.Element:
			last := &list[len(list)-1]
			last.elements = append(last.elements, l.Element)
		}
	}
}

// Whatever the bytes are, they come back, and the lines are UTF-8 and one for each.
func FuzzWriter(f *testing.F) {
	for _, e := range sample() {
		f.Add(e.Key, e.Value, e.Codec, e.Schema, e.Expires.UnixMilli())
	}
	f.Fuzz(func(t *testing.T, key, value []byte, codec, schema string, deadline int64) {
		e := admin.Entry{Key: key, Value: value, Codec: codec, Schema: schema}
		if deadline > 0 {
			e.Expires = time.UnixMilli(deadline)
		}
		out := write(t, []admin.Entry{e})
		if back, bad, _ := read(t, out, false); len(bad) > 0 || !same(back, []admin.Entry{e}) {
			t.Fatalf("%+v is written as\n%s\nand read as %+v, %v", e, out, back, bad)
		}
	})
}
