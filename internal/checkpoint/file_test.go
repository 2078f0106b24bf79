package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// memory is a file that is written from its beginning on.
type memory []byte

func (m *memory) WriteAt(b []byte, off int64) (int, error) {
	if more := int(off) + len(b) - len(*m); more > 0 {
		*m = append(*m, make([]byte, more)...)
	}
	return copy((*m)[off:], b), nil
}

const testStore = 0x77aa00000000beef

// due and part are the content of a shard in a test file.
var (
	dueOf  = func(shard int) []byte { return bytes.Repeat([]byte{byte(shard) + 1}, 3*DueBytes) }
	partOf = func(shard int) []byte { return bytes.Repeat([]byte{byte(shard) + 100}, 5*index.SlotBytes) }
)

// written returns a file with a table of two queues and two parts, after a queue that was taken
// back.
func written(t *testing.T) []byte {
	t.Helper()
	var file memory
	w := NewWriter(&file)
	dropped, kept := &Table{Kind: Raw}, &Table{Kind: Map, Name: "users"}
	err := w.Due(dropped, 0, 7, bytes.Repeat([]byte{0xee}, 100*DueBytes))
	dropped.Due = nil
	for shard := range 2 {
		err = errors.Join(err, w.Due(kept, shard, 9, dueOf(shard)))
	}
	for shard := range 2 {
		err = errors.Join(err, w.Part(kept, shard, &index.Part{Entries: partOf(shard), Schemas: []index.SchemaCount{{Schema: 1, Entries: 5}}}))
	}
	x := &Index{Coverage: seglog.Coverage{Store: testStore, Seq: 9}, Reach: 9, Tables: []Table{*dropped, *kept}}
	n, err2 := w.Finish(x)
	if err := errors.Join(err, err2); err != nil || n != int64(len(file)) {
		t.Fatal(n, len(file), err)
	}
	return file
}

// readAll reads a file as a store does that uses all of it.
func readAll(file []byte) (*Index, error) {
	f := bytes.NewReader(file)
	x, err := Read(f, int64(len(file)))
	if err != nil {
		return nil, err
	}
	for _, t := range x.Tables {
		for i := range t.Due {
			if b, err := t.Due[i].Read(f); err != nil || !bytes.Equal(b, dueOf(t.Due[i].Shard)) {
				return nil, cmpErr(err, "the queue is another")
			}
		}
		for i := range t.Parts {
			if p, err := t.Parts[i].Read(f); err != nil || !bytes.Equal(p.Entries, partOf(t.Parts[i].Shard)) {
				return nil, cmpErr(err, "the entries are others")
			}
		}
	}
	return x, nil
}

// errUnnoticed: bytes were read that were never written.
var errUnnoticed = errors.New("not noticed")

func cmpErr(err error, what string) error {
	if err != nil {
		return err
	}
	return errors.Join(errUnnoticed, errors.New(what))
}

// TestFile: the written content is read, also after a queue that was taken back and is longer than
// all of it.
func TestFile(t *testing.T) {
	file := written(t)
	x, err := readAll(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Tables) != 2 || len(x.Tables[0].Due) != 0 || len(x.Tables[1].Due) != 2 || len(x.Tables[1].Parts) != 2 {
		t.Fatalf("it has %+v", x.Tables)
	}
}

// TestEveryFlipIsFound: no bit of a file can be another, and none of its bytes be missing, without an error that
// blames the file.
func TestEveryFlipIsFound(t *testing.T) {
	file := written(t)
	wantDamage := func(what string, at int, b []byte) {
		t.Helper()
		_, err := readAll(b)
		if corrupt := new(seglog.CorruptError); !errors.As(AsDamage("x.index", 0, err), &corrupt) && !errors.Is(err, record.ErrVersion) {
			t.Errorf("%s at %d of %d bytes: %v", what, at, len(file), err)
		}
	}
	for at := range file {
		if at < Head || at >= Head+100*DueBytes { // between them are bytes to which nothing refers
			b := bytes.Clone(file)
			b[at] ^= 1 << (at % 8)
			wantDamage("a flipped bit", at, b)
		}
		wantDamage("an end", at, file[:at])
	}
	wantDamage("a byte more", len(file), append(bytes.Clone(file), 0))
}

// TestFileOfTwoStores: a first line that is true, and is of another store, is damage, and so is one that leads to
// another place.
func TestFileOfTwoStores(t *testing.T) {
	file := written(t)
	_, at, n, err := ParseTitle(file[:Head])
	if err != nil {
		t.Fatal(err)
	}
	for what, title := range map[string][]byte{
		"another store":  Title(testStore+1, at, n),
		"a shorter text": Title(testStore, at, n-1),
		"a later text":   Title(testStore, at+1, n-1),
		"no text":        Title(testStore, at+n, 0),
	} {
		if x, err := readAll(append(title, file[Head:]...)); err == nil || errors.Is(err, errUnnoticed) {
			t.Errorf("%s: %+v, %v", what, x, err)
		}
	}
}

// TestBlocksBehindTheText: a text whose blocks would reach into it is damage.
func TestBlocksBehindTheText(t *testing.T) {
	for old, now := range map[string]string{"part 1 offset ": "part 1 offset f", "due 1 offset ": "due 1 offset f"} {
		file := written(t)
		_, at, n, err := ParseTitle(file[:Head])
		if err != nil {
			t.Fatal(err)
		}
		text := string(file[at : at+n-9])
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in\n%s", old, text)
		}
		sealed := record.Seal([]byte(strings.Replace(text, old, now, 1)))
		forged := append(Title(testStore, at, int64(len(sealed))), append(bytes.Clone(file[Head:at]), sealed...)...)
		if _, err := Read(bytes.NewReader(forged), int64(len(forged))); !errors.Is(err, record.ErrSyntax) {
			t.Errorf("%s: %v", now, err)
		}
	}
}

// A file that cannot be read is not damaged.
func TestReadError(t *testing.T) {
	file := written(t)
	broken := errors.New("broken")
	_, err := Read(io.NewSectionReader(failing{broken}, 0, int64(len(file))), int64(len(file)))
	if corrupt := new(seglog.CorruptError); !errors.Is(err, broken) || errors.As(AsDamage("x.index", 0, err), &corrupt) {
		t.Errorf("it says %v", err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }
