package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

const (
	Head     = 256 // bytes of the first line
	DueBytes = 16  // length of an item of a queue of deadlines
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Index is the text of a snapshot.
type Index struct {
	seglog.Coverage
	Reach   uint64 // no entry is of a record with a higher number
	Schemas []Schema
	Tables  []Table
	Swept   bool     // there are elements, and none of a collection that is gone
	Other   []string // lines of a newer minor format
	Sum     uint32   // with which the text ends, when it was written or read
}

// Schema is the form of some values, under the number by which entries name it.
type Schema struct {
	Number      uint64
	Codec, Text string
}

// Table is a declared map, or the keys that belong to none.
type Table struct {
	Space    uint64
	Kind     string // one of the kinds below
	Declared bool   // by a record of the log
	Keys     string // name of the order of the keys, as that record says; "" for none
	Ordered  bool   // as that record says: the keys are kept in that order
	Expiry   bool   // as that record says: the end of an entry at its deadline is a record
	Name     string // escaped; "" except for maps
	Order    *Order // nil for none
	Due      []Due
	Parts    []Part
}

// Due is the place of the queue of deadlines of a shard. A shard without items has none.
type Due struct {
	Shard  int
	Offset int64
	Items  int64
	First  uint64 // the earliest deadline
	CRC    uint32
}

func (d *Due) bytes() int64 { return d.Items * DueBytes }

// The kinds of tables.
const (
	Raw      = "raw"
	Elements = "elements"
	Map      = "map"
)

// Part is the place of the entries of a shard. A shard without entries has none.
type Part struct {
	Shard   int
	Offset  int64
	Entries int64
	CRC     uint32
	Schemas []index.SchemaCount
}

func (p *Part) bytes() int64 { return p.Entries * index.SlotBytes }

// Encode writes
//
//	copal index 1
//	store 5f3a91c2d4e5f607 seq 1f00 time 19a8c3d2e10 reach 1f02 tail 0 crc 1f0c9a3e
//	segment 1 salt 1f0c9a3e5f3a91c2 bytes 4000000 records 1f00 first 1 last 1f00 dead 2f0
//	Group 1e0 commit 1ee members 1,2
//	schema 1 json "struct{Name string}"
//	table 0 raw declared 0 keys - ordered 0 expiry 0 name␠
//	table 0 map declared 1 keys bytes ordered 1 expiry 0 name users
//	ordered bytes built 1 clock 19a8c3d2e10 runs 5f3a91c2d4e5f607
//	due 2f offset 80 items 3 first 19a8c3d2e10 crc 1f0c9a3e
//	part 3f offset 80 entries 10 crc 1f0c9a3e schemas 0:1,2:f
//	end 1f0c9a3e
func (x *Index) Encode() []byte {
	b := fmt.Appendf(nil, "%s\nstore %016x seq %x time %x reach %x tail %x crc %08x\n", record.Title("index"), x.Store, x.Seq, x.Time, x.Reach, x.Tail, x.TailCRC)
	for _, s := range x.Segments {
		b = fmt.Appendf(b, "segment %s salt %016x bytes %x records %x first %x last %x dead %x\n", s.ID, uint64(s.Salt), s.Bytes, s.Records, s.First, s.Last, max(s.Dead, 0))
	}
	for _, g := range x.Groups {
		b = fmt.Appendf(b, "Group %x commit %x members %s\n", g.Number, g.Commit, joinSegments(g.Segments))
	}
	for _, s := range x.Schemas {
		b = fmt.Appendf(b, "schema %x %s %s\n", s.Number, strconv.QuoteToASCII(s.Codec), strconv.QuoteToASCII(s.Text))
	}
	for i := range x.Tables {
		t := &x.Tables[i]
		if b = append(b, t.encode()...); t.Order != nil {
			b = append(b, t.Order.encode()...)
		}
		for _, d := range t.Due {
			b = fmt.Appendf(b, "due %x offset %x items %x first %x crc %08x\n", d.Shard, d.Offset, d.Items, d.First, d.CRC)
		}
		for _, p := range t.Parts {
			b = fmt.Appendf(b, "part %x offset %x entries %x crc %08x schemas %s\n", p.Shard, p.Offset, p.Entries, p.CRC, schemaCounts(p.Schemas))
		}
	}
	if x.Swept {
		b = append(b, "swept 1\n"...)
	}
	for _, line := range x.Other {
		b = append(append(b, line...), '\n')
	}
	return record.Seal(append(b, "end"...))
}

func joinSegments(list []record.SegmentID) string {
	var words []string
	for _, id := range list {
		words = append(words, id.String())
	}
	return strings.Join(words, ",")
}

func (x *Index) parseGroup(f *record.Fields) error {
	g := seglog.CoveredGroup{Number: f.Hex("Group"), Commit: f.Hex("commit")}
	words := f.Word("members")
	if err := f.End(); err != nil {
		return err
	}
	for word := range strings.SplitSeq(words, ",") {
		id, err := record.ParseSegmentID(word)
		if err != nil {
			return err
		}
		g.Segments = append(g.Segments, id)
	}
	if g.Number == 0 || g.Number >= g.Commit || g.Number > x.Seq {
		return fmt.Errorf("%w: an impossible group %x", record.ErrSyntax, g.Number)
	}
	x.Groups = append(x.Groups, g)
	return nil
}

// schemaCounts writes numbers of schemas and of their entries.
func schemaCounts(list []index.SchemaCount) string {
	var b strings.Builder
	for i, c := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%x:%x", c.Schema, c.Entries)
	}
	return b.String()
}

func parseSchemaCounts(text string) ([]index.SchemaCount, int64, error) {
	var list []index.SchemaCount
	total := int64(0)
	for item := range strings.SplitSeq(text, ",") {
		schema, entries, _ := strings.Cut(item, ":")
		s, err := record.ParseHex(schema)
		n, err2 := record.ParseHex(entries)
		if err != nil || err2 != nil || n == 0 || n > maxPartEntries {
			return nil, 0, fmt.Errorf("%w: counts of schemas %q", record.ErrSyntax, text)
		}
		list = append(list, index.SchemaCount{Schema: s, Entries: int64(n)})
		total += int64(n)
	}
	return list, total, nil
}

// maxPartEntries bounds the memory allocated for a part.
const maxPartEntries = 1 << 31 / index.SlotBytes

// Parse parses the text of Encode. Lines are skipped as in a manifest.
func Parse(text []byte) (*Index, error) {
	body, err := record.Unseal(text, "index")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimPrefix(body, "\n"), "\n")
	if len(lines) < 2 || lines[len(lines)-1] != "end" {
		return nil, fmt.Errorf("%w: the index has no end", record.ErrSyntax)
	}
	x := &Index{}
	f := record.NewFields(lines[0])
	x.Store, x.Seq, x.Time, x.Reach = f.Fixed("store"), f.Hex("seq"), f.Hex("time"), f.Hex("reach")
	x.Tail, x.TailCRC = int(min(f.Hex("tail"), index.MaxSegments)), parseCRC(f)
	if err := f.End(); err != nil {
		return nil, err
	}
	for _, line := range lines[1 : len(lines)-1] {
		if err := x.parseLine(line); err != nil {
			return nil, err
		}
	}
	return x, x.validate()
}

func (x *Index) parseLine(line string) error {
	f := record.NewFields(line)
	switch {
	case f.Has("segment"):
		s := seglog.CoveredSegment{ManifestSegment: seglog.ManifestSegment{ID: f.Segment("segment"), Salt: record.Salt(f.Fixed("salt")),
			Bytes: int64(f.Hex("bytes")), Records: f.Hex("records"), First: f.Hex("first"), Last: f.Hex("last")}, Dead: int64(f.Hex("dead"))}
		x.Segments = append(x.Segments, s)
	case f.Has("Group"):
		return x.parseGroup(f)
	case f.Has("schema"):
		return x.parseSchema(line)
	case f.Has("table"):
		return x.parseTable(line)
	case f.Has("ordered"):
		return x.parseOrder(f)
	case f.Has("part"):
		return x.parsePart(f)
	case f.Has("due"):
		return x.parseDue(f)
	case f.Has("swept"):
		x.Swept = f.Hex("swept") == 1
	case line != "" && line[0] >= 'a' && line[0] <= 'z':
		x.Other = append(x.Other, line)
		return nil
	default:
		return fmt.Errorf("%w: index line %q", record.ErrVersion, line)
	}
	return f.End()
}

func (x *Index) parseSchema(line string) error {
	bad := fmt.Errorf("%w: %q", record.ErrSyntax, line)
	number, rest, _ := strings.Cut(strings.TrimPrefix(line, "schema "), " ")
	n, err := record.ParseHex(number)
	if err != nil || n == 0 {
		return bad
	}
	first, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return bad
	}
	codec, err := strconv.Unquote(first)
	text, err2 := strconv.Unquote(strings.TrimPrefix(rest[len(first):], " "))
	s := Schema{n, codec, text}
	if err != nil || err2 != nil || line != fmt.Sprintf("schema %x %s %s", n, strconv.QuoteToASCII(codec), strconv.QuoteToASCII(text)) {
		return bad
	}
	x.Schemas = append(x.Schemas, s)
	return nil
}

func (x *Index) parseTable(line string) error {
	words := strings.Split(line, " ")
	bad := fmt.Errorf("%w: %q", record.ErrSyntax, line)
	if len(words) != 13 {
		return bad
	}
	space, err := record.ParseHex(words[1])
	t := Table{Space: space, Kind: words[2], Declared: words[4] == "1", Keys: words[6], Ordered: words[8] == "1", Expiry: words[10] == "1", Name: words[12]}
	if t.Keys == noKeys {
		t.Keys = ""
	}
	switch {
	case err != nil || t.encode() != line+"\n" || t.Ordered && t.Keys == "" || (t.Keys != "" || t.Expiry) && !t.Declared:
		return bad
	case t.Kind == Map:
	case (t.Kind == Raw || t.Kind == Elements) && t.Name == "":
	default:
		return bad
	}
	x.Tables = append(x.Tables, t)
	return nil
}

// noKeys is written for an order of keys that has no name.
const noKeys = "-"

// encode writes the line of the table itself.
func (t *Table) encode() string {
	return fmt.Sprintf("table %x %s declared %x keys %s ordered %x expiry %x name %s\n", t.Space, t.Kind, bit(t.Declared), cmp.Or(t.Keys, noKeys), bit(t.Ordered), bit(t.Expiry), t.Name)
}

// bit is a bool as a number.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (x *Index) parseDue(f *record.Fields) error {
	d := Due{Shard: int(min(f.Hex("due"), cache.Shards)), Offset: int64(f.Hex("offset")), Items: int64(min(f.Hex("items"), maxPartEntries+1))}
	d.First, d.CRC = f.Hex("first"), parseCRC(f)
	if err := f.End(); err != nil {
		return err
	}
	if len(x.Tables) == 0 || d.Shard >= cache.Shards || d.Items == 0 || d.Items > maxPartEntries || d.Offset < Head {
		return fmt.Errorf("%w: an impossible queue of deadlines", record.ErrSyntax)
	}
	t := &x.Tables[len(x.Tables)-1]
	if n := len(t.Due); n > 0 && t.Due[n-1].Shard >= d.Shard || len(t.Parts) > 0 {
		return fmt.Errorf("%w: the queue of table %q is out of order", record.ErrSyntax, t.Name)
	}
	t.Due = append(t.Due, d)
	return nil
}

func (x *Index) parsePart(f *record.Fields) error {
	p := Part{Shard: int(min(f.Hex("part"), index.Shards)), Offset: int64(f.Hex("offset")), Entries: int64(min(f.Hex("entries"), maxPartEntries+1))}
	p.CRC = parseCRC(f)
	counts := f.Word("schemas")
	if err := f.End(); err != nil {
		return err
	}
	total, err := int64(0), error(nil)
	if p.Schemas, total, err = parseSchemaCounts(counts); err != nil {
		return err
	}
	if len(x.Tables) == 0 || p.Shard >= index.Shards || p.Entries != total || p.Entries > maxPartEntries || p.Offset < Head {
		return fmt.Errorf("%w: an impossible part of the index", record.ErrSyntax)
	}
	t := &x.Tables[len(x.Tables)-1]
	if n := len(t.Parts); n > 0 && t.Parts[n-1].Shard >= p.Shard {
		return fmt.Errorf("%w: the parts of table %q are out of order", record.ErrSyntax, t.Name)
	}
	t.Parts = append(t.Parts, p)
	return nil
}

// parseCRC reads a checksum.
func parseCRC(f *record.Fields) uint32 {
	v := f.Digits("crc", 8)
	return uint32(v)
}

func (x *Index) validate() error {
	ids := map[record.SegmentID]bool{}
	for _, s := range x.Segments {
		if ids[s.ID] || s.Bytes < 0 || s.Bytes > seglog.MaxSegmentBytes || s.Dead < 0 || s.Last < s.First || s.Last > x.Seq {
			return fmt.Errorf("%w: segment %s has impossible bounds", record.ErrSyntax, s.ID)
		}
		ids[s.ID] = true
	}
	if len(x.Segments) > index.MaxSegments || x.Reach < x.Seq || len(x.Segments) > 0 && x.Tail >= len(x.Segments) {
		return fmt.Errorf("%w: impossible bounds", record.ErrSyntax)
	}
	type name struct {
		space      uint64
		kind, name string
	}
	tables := map[name]bool{}
	for _, t := range x.Tables {
		n := name{t.Space, t.Kind, t.Name}
		if tables[n] {
			return fmt.Errorf("%w: table %q is there twice", record.ErrSyntax, t.Name)
		}
		tables[n] = true
	}
	schemas := map[uint64]bool{}
	for _, s := range x.Schemas {
		if schemas[s.Number] {
			return fmt.Errorf("%w: schema %x is there twice", record.ErrSyntax, s.Number)
		}
		schemas[s.Number] = true
	}
	return nil
}

// Title returns the first line, with the place and the length of the text.
func Title(store uint64, text, bytes int64) []byte {
	line := fmt.Sprintf("%s store %016x text %x bytes %x", record.Title("index"), store, text, bytes)
	return record.Seal(append([]byte(line), strings.Repeat(" ", Head-10-len(line))...))
}

func ParseTitle(b []byte) (store uint64, text, bytes int64, err error) {
	body, err := record.Unseal(b, "index")
	if err != nil {
		return 0, 0, 0, err
	}
	f := record.NewFields(strings.TrimRight(body, " "))
	store, text, bytes = f.Fixed("store"), int64(f.Hex("text")), int64(f.Hex("bytes"))
	if err := f.End(); err != nil {
		return 0, 0, 0, err
	}
	if text < Head || bytes <= 0 || text+bytes < text {
		return 0, 0, 0, fmt.Errorf("%w: the place of the text", record.ErrSyntax)
	}
	return store, text, bytes, nil
}

// Read reads and verifies all of a snapshot but its parts, from the first size bytes of the file.
func Read(f io.ReaderAt, size int64) (*Index, error) {
	b := make([]byte, Head)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, shortRead(err)
	}
	store, text, bytes, err := ParseTitle(b)
	if err != nil {
		return nil, err
	}
	if text+bytes != size {
		return nil, fmt.Errorf("%w: the file has %d bytes, and its first line says %d", record.ErrShort, size, text+bytes)
	}
	b = make([]byte, bytes)
	if n, err := f.ReadAt(b, text); n < len(b) {
		return nil, shortRead(err)
	}
	x, err := Parse(b)
	if err != nil {
		return nil, err
	}
	x.Sum = sumOf(b)
	if x.Store != store {
		return nil, fmt.Errorf("%w: the text is that of store %016x", record.ErrSyntax, x.Store)
	}
	for _, t := range x.Tables {
		for _, d := range t.Due {
			if d.Offset+d.bytes() > text {
				return nil, fmt.Errorf("%w: a queue is beyond the others", record.ErrSyntax)
			}
		}
		for _, p := range t.Parts {
			if p.Offset+p.bytes() > text {
				return nil, fmt.Errorf("%w: a part is beyond the others", record.ErrSyntax)
			}
		}
	}
	return x, nil
}

// sumOf is the checksum with which a text ends.
func sumOf(text []byte) uint32 {
	sum, _ := strconv.ParseUint(string(text[len(text)-9:len(text)-1]), 16, 32)
	return uint32(sum)
}

// shortRead distinguishes a file that ends too early from one that cannot be read.
func shortRead(err error) error {
	if err == nil || err == io.EOF {
		return record.ErrShort
	}
	return fmt.Errorf("copal: %w", err)
}

// AsDamage turns an error that the bytes of a file cause into a *CorruptError.
func AsDamage(path string, offset int64, err error) error {
	for _, kind := range []error{record.ErrShort, record.ErrChecksum, record.ErrSyntax, index.ErrPart} {
		if errors.Is(err, kind) {
			return &seglog.CorruptError{File: path, Offset: offset, Reason: err.Error()}
		}
	}
	return err
}

// Read reads and verifies the queue.
func (d *Due) Read(f io.ReaderAt) ([]byte, error) { return readSummed(f, d.Offset, d.bytes(), d.CRC) }

// Read reads and verifies the entries.
func (p *Part) Read(f io.ReaderAt) (index.Part, error) {
	b, err := readSummed(f, p.Offset, p.bytes(), p.CRC)
	if err != nil {
		return index.Part{}, err
	}
	return index.Part{Entries: b, Schemas: append([]index.SchemaCount(nil), p.Schemas...)}, nil
}

func readSummed(f io.ReaderAt, offset, bytes int64, sum uint32) ([]byte, error) {
	b := make([]byte, bytes)
	if n, err := f.ReadAt(b, offset); n < len(b) {
		return nil, shortRead(err)
	}
	if crc32.Checksum(b, castagnoli) != sum {
		return nil, record.ErrChecksum
	}
	return b, nil
}
