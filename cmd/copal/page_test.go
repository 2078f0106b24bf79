package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/exporting"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/pagetest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/store"
)

// The pages of the formats show bytes. All of them are verified here; a line feed is ⏎ there, or
// the end of an example, and … means the spaces that pad a line.

const (
	formatPage = "../../docs/format.md"
	lineFeed   = "⏎"
)

var pages = []string{formatPage, "../../docs/index-format.md", "../../docs/hybridlog-format.md"}

// padded are the lengths of the lines that are padded.
var padded = map[string]int{"synced": 512, "ring": 4096, "index": 256, "order": 256, "hybridsums": 128, "hybridmark": 512, "hybridring": 4096}

var (
	sealedText  = regexp.MustCompile(`^copal ([a-z]+) [0-9]+[ \n]`)
	segmentLine = regexp.MustCompile(`^copal log 1 .* salt ([0-9a-f]{16}) `)
	finalCRC    = regexp.MustCompile(` ([0-9a-f]{8})\n?$`)
)

// TestExamplesOfPages verifies each example that has a checksum.
func TestExamplesOfPages(t *testing.T) {
	for _, page := range pages {
		n := 0
		for _, example := range examplesOf(t, page) {
			n += verifyExample(t, filepath.Base(page), example)
		}
		if n < 3 {
			t.Errorf("%s: %d examples with a checksum are few", page, n)
		}
	}
}

var frameLine = regexp.MustCompile(`(?m)^((?:[0-9a-f]{8} ){3}[0-9a-f]{8})  `)

// TestFramesOfThePage verifies the frames that docs/hybridlog-format.md shows, of a segment whose
// salt and beginning the page says.
func TestFramesOfThePage(t *testing.T) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	n := uint64(0)
	for _, example := range examplesOf(t, "../../docs/hybridlog-format.md") {
		for _, m := range frameLine.FindAllStringSubmatch(example, -1) {
			frame, err := hex.DecodeString(strings.ReplaceAll(m[1], " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			b := binary.BigEndian.AppendUint64(nil, 0xd4e5f6071f0c9a3e)
			b = binary.BigEndian.AppendUint64(b, 0x2000)
			b = append(binary.BigEndian.AppendUint64(b, n), frame[:12]...)
			if sum := crc32.Checksum(b, castagnoli); sum != binary.BigEndian.Uint32(frame[12:]) {
				t.Errorf("frame %d: its check is %08x, and not %s", n, sum, m[1][27:])
			}
			n++
		}
	}
	if n != 3 {
		t.Errorf("the page shows %d frames, want 3", n)
	}
}

// examplesOf returns the indented blocks of a page, without the indentation.
func examplesOf(t *testing.T, page string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	open := false
	for line := range strings.Lines(string(text)) {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented && open:
			list[len(list)-1] += code
		case indented:
			list = append(list, code)
		}
		open = indented
	}
	return list
}

// verifyExample verifies the parts of a block that have checksums, and returns their number.
// Records follow the first line of a segment, without a gap.
func verifyExample(t *testing.T, page, text string) (n int) {
	t.Helper()
	text = strings.ReplaceAll(text, lineFeed+"\n", "\n")
	if sealedText.MatchString(text) && strings.Contains(text, "\nend ") {
		verifySealed(t, page, text)
		return 1
	}
	for line := range strings.Lines(text) {
		if sealedText.MatchString(line) {
			verifySealed(t, page, line)
			n++
		}
		if m := segmentLine.FindStringSubmatch(line); m != nil {
			salt, _ := strconv.ParseUint(m[1], 16, 64)
			return n + verifyRecords(t, page, text, int64(len(line)), record.Salt(salt))
		}
	}
	return n
}

// verifyRecords verifies the records of a segment from an offset on, and returns their number.
func verifyRecords(t *testing.T, page, text string, offset int64, salt record.Salt) (n int) {
	t.Helper()
	for offset < int64(len(text)) {
		b := []byte(text[offset:])
		h, head, err := record.Parse(b)
		if err == nil {
			b = b[:min(len(b), h.Length(head))]
			_, _, err = salt.Verify(b, offset, &h, head)
		}
		if err != nil {
			t.Errorf("%s: the record at %#x: %v\n%s", page, offset, err, text[offset:])
			return n
		}
		offset += int64(len(b))
		n++
	}
	return n
}

func verifySealed(t *testing.T, page, text string) {
	t.Helper()
	what := sealedText.FindStringSubmatch(text)[1]
	if body, crc, found := strings.Cut(text, " … "); found {
		text = unpad(body, crc, padded[what])
	}
	m := finalCRC.FindStringSubmatch(text)
	if m == nil {
		t.Errorf("%s: %.60q has no checksum", page, text)
		return
	}
	sum := crc32.Checksum([]byte(text[:strings.LastIndex(text, m[1])]), crc32.MakeTable(crc32.Castagnoli))
	if want := fmt.Sprintf("%08x", sum); m[1] != want {
		t.Errorf("%s: the checksum of %.60q is %s, and not %s", page, text, want, m[1])
	}
}

// unpad puts spaces in the place of …, so that the line has n bytes.
func unpad(body, crc string, n int) string {
	return fmt.Sprintf("%-*s%s", n-len("01234567\n"), body, crc)
}

// TestStoreOfThePage writes the store that docs/format.md shows, compares it, byte for byte, and
// has the command and the reader in Python read it from the page. With -update the page is written.
func TestStoreOfThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { storeOfThePage(t) })
}

const (
	beginStore = "<!-- The store below is written by: go test ./cmd/copal -run TestStoreOfThePage -update -->\n"
	endStore   = "<!-- The end of the store. -->\n"
)

func storeOfThePage(t *testing.T) {
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(page), beginStore)
	shown, after, ended := strings.Cut(rest, endStore)
	if !begun || !ended {
		t.Fatalf("%s does not say where the store stands", formatPage)
	}
	dir := filepath.Join(t.TempDir(), "made")
	writeStoreOfThePage(t, dir)
	var b strings.Builder
	for _, name := range []string{"MANIFEST", "SYNCED", "00000001.log"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		show(&b, "`"+name+"`", string(text))
	}
	export := exported(t, dir)
	show(&b, "The output of `copal export`", export)
	b.WriteByte('\n')
	if got := b.String(); got != shown {
		if !*update {
			t.Fatalf("%s shows another store; -update writes it\n%s", formatPage, got)
		}
		if err := os.WriteFile(formatPage, []byte(before+beginStore+got+endStore+after), 0o666); err != nil {
			t.Fatal(err)
		}
		shown = got
	}
	read := filepath.Join(t.TempDir(), "read")
	fromThePage(t, shown, read)
	if got := exported(t, read); got != export {
		t.Errorf("from the page: %s", got)
	}
	if a := pagetest.Start(t).Ask("store", read, time.Now()); a.Export != export {
		t.Errorf("the reader says: %s, %s\n%s", a.Verdict, a.Why, a.Export)
	}
}

var spaces = regexp.MustCompile(` {9,}`)

// show shows a file.
func show(b *strings.Builder, name, text string) {
	fmt.Fprintf(b, "\n%s:\n\n", name)
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "    %s%s\n", spaces.ReplaceAllString(strings.TrimSuffix(line, "\n"), " … "), lineFeed)
	}
}

var shownFile = regexp.MustCompile("`([^`]+)`:\n\n((?:    .*\n)+)")

// fromThePage makes a directory of the files that the page shows.
func fromThePage(t *testing.T, shown, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, m := range shownFile.FindAllStringSubmatch(shown, -1) {
		var text string
		for line := range strings.Lines(m[2]) {
			line = strings.TrimSuffix(strings.TrimPrefix(line, "    "), lineFeed+"\n") + "\n"
			if body, crc, found := strings.Cut(line, " … "); found {
				line = unpad(body, crc, padded[sealedText.FindStringSubmatch(line)[1]])
			}
			text += line
		}
		if err := os.WriteFile(filepath.Join(dir, m[1]), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// exported returns the output of 'copal export'. It does not wait for signals, which a bubble does
// not let pass.
func exported(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	x := &exporting.Export{App: cli.NewApp(strings.NewReader(""), &out, io.Discard)}
	w := bufio.NewWriter(&out)
	err := x.Parse(false)
	if err == nil {
		err = x.View(dir, func(db *copal.DB) error { return x.Run(cli.Source{DB: db}, "-", w) })
	}
	if err := errors.Join(err, w.Flush()); err != nil {
		t.Fatalf("export of %s: %v", dir, err)
	}
	return out.String()
}

// writeStoreOfThePage writes the store. The clock is the bubble's, and random numbers are fixed.
func writeStoreOfThePage(t *testing.T, dir string) {
	t.Helper()
	drawn := []uint64{0x77aa00000000beef, 0x5f3a91c2d4e5f607}
	random := func() uint64 {
		n := drawn[0]
		drawn = append(drawn[1:], n*0x9e3779b97f4a7c15+1)
		return n
	}
	s, err := store.Open(dir, engine.Options{Random: random, Inline: true})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	users, err := s.Map("users")
	check(err)
	schema, err := s.SchemaNumber(engine.Schema{Codec: "json", Text: "struct{Name string; Age int}"})
	check(err)
	user := func(name, text string) *engine.Change {
		return &engine.Change{Write: engine.Write{Key: []byte("users:" + name), Value: []byte(text), Schema: schema}}
	}
	check(s.Set(users, user("alice", "").Key, []byte(`{"Name":"Alice","Age":28}`), schema, engine.Process))
	time.Sleep(time.Second)
	check(s.WriteAll([]*engine.Change{user("alice", `{"Name":"Alice","Age":29}`), user("bob", `{"Name":"Bob","Age":31}`)}, engine.Process))
	_, err = s.Write(nil, &engine.Write{Key: []byte("session"), Value: []byte("signed in"), Expiry: uint64(time.Now().Add(time.Hour).UnixMilli()), Durability: engine.Process})
	check(err)
	check(s.Change([]byte("stock"), engine.HashType, engine.Process, func(*engine.Plan) ([]*engine.Edit, error) {
		return []*engine.Edit{{Sub: []byte("apples"), Value: []byte("3")}, {Sub: []byte("pears"), Value: []byte("4")}}, nil
	}))
	check(s.Set(nil, []byte("draft"), []byte("two\nlines"), 0, engine.Process))
	check(s.Set(nil, []byte("tmp/1"), []byte("x"), 0, engine.Process))
	time.Sleep(time.Second)
	_, err = s.Delete(nil, []byte("draft"), engine.Process)
	check(err)
	check(s.DeleteRange(keyrange.Prefix([]byte("tmp/")), engine.Process))
	check(s.Close())
}
