package checkpoint

import (
	"hash/crc32"
	"io"

	"github.com/copaldb/copal/internal/index"
)

// Writer writes a file: for each table its queues, then its parts; and Finish at last.
type Writer struct {
	f   io.WriterAt
	end int64 // of the written part
}

// NewWriter returns a writer of a file that is empty. Errors of the file are returned unwrapped.
func NewWriter(f io.WriterAt) *Writer { return &Writer{f: f, end: Head} }

// Due writes the items of a shard's queue of deadlines, of which first is the earliest.
func (w *Writer) Due(t *Table, shard int, first uint64, items []byte) error {
	d := Due{Shard: shard, Offset: w.end, Items: int64(len(items)) / DueBytes, First: first, CRC: crc32.Checksum(items, castagnoli)}
	t.Due = append(t.Due, d)
	return w.write(items)
}

// Part writes the entries of a shard. Without entries it writes nothing.
func (w *Writer) Part(t *Table, shard int, p *index.Part) error {
	if len(p.Entries) == 0 {
		return nil
	}
	entries := int64(len(p.Entries) / index.SlotBytes)
	out := Part{Shard: shard, Offset: w.end, Entries: entries, CRC: crc32.Checksum(p.Entries, castagnoli)}
	total := int64(0)
	for _, c := range p.Schemas {
		if c.Entries > 0 {
			out.Schemas = append(out.Schemas, c)
			total += c.Entries
		}
	}
	if total != out.Entries { // a damaged record was taken for one of another schema
		out.Schemas = []index.SchemaCount{{Schema: 0, Entries: out.Entries}}
	}
	t.Parts = append(t.Parts, out)
	return w.write(p.Entries)
}

// Finish writes the text, and then the first line, and returns how long the file is.
func (w *Writer) Finish(x *Index) (int64, error) {
	at, text := w.end, x.Encode()
	x.Sum = sumOf(text)
	if err := w.write(text); err != nil {
		return w.end, err
	}
	_, err := w.f.WriteAt(Title(x.Store, at, int64(len(text))), 0)
	return w.end, err
}

func (w *Writer) write(b []byte) error {
	if _, err := w.f.WriteAt(b, w.end); err != nil {
		return err
	}
	w.end += int64(len(b))
	return nil
}
