package order

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/copaldb/copal/internal/record"
)

// A run begins with one line, padded with spaces to titleBytes, with the numbers of the store and the run, and
// the place of the list of its blocks. The blocks follow without a gap, and then the list, with which the file
// ends. It has for each block, with numbers as varints,
//
//	its length, and the number of its marks
//	what these add to the number of keys that the layers below show, signed
//	its CRC-32C, four bytes, low byte first
//	the length of its first key, and that key
//
// The list has a checksum in the first line. A block is verified whenever it is read.
const titleBytes = 256

// Title is the first line of a run.
type Title struct {
	Store  uint64 // identity
	Run    uint64 // drawn at random, also the name of the file
	Keys   int64  // number of marks
	Blocks int64
	List   int64 // place of the list of blocks
	Length int64 // of the list
	CRC    uint32
	Sure   bool // each mark was made with knowledge of the layers below
}

// encode writes
//
//	copal order 1 store 77aa00000000beef run 5f3a91c2d4e5f607 keys f4240 blocks 1f0 list 3d0900 length 1f00 sure 1 crc 1f0c9a3e     966e7c41
func (h *Title) encode() []byte {
	line := fmt.Sprintf("%s store %016x run %016x keys %x blocks %x list %x length %x sure %x crc %08x",
		record.Title("order"), h.Store, h.Run, h.Keys, h.Blocks, h.List, h.Length, bit(h.Sure), h.CRC)
	return record.Seal(append([]byte(line), strings.Repeat(" ", titleBytes-10-len(line))...))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func parseTitle(b []byte) (h Title, err error) {
	body, err := record.Unseal(b, "order")
	if err != nil {
		return h, err
	}
	f := record.NewFields(strings.TrimRight(body, " "))
	h.Store, h.Run = f.Fixed("store"), f.Fixed("run")
	h.Keys, h.Blocks, h.List, h.Length = int64(f.Hex("keys")), int64(f.Hex("blocks")), int64(f.Hex("list")), int64(f.Hex("length"))
	sure := f.Hex("sure")
	h.Sure = sure == 1
	h.CRC = uint32(f.Digits("crc", 8))
	if err := f.End(); err != nil {
		return Title{}, err
	}
	const most = 1 << 48
	if sure > 1 || h.Keys < h.Blocks || h.Blocks < 0 || h.Keys > most || h.List < titleBytes || h.List > most || h.Length < h.Blocks || h.Length > most {
		return Title{}, fmt.Errorf("%w: impossible bounds", record.ErrSyntax)
	}
	return h, nil
}

// Writer writes a run: its marks, in ascending order of their keys, and then Finish.
type Writer struct {
	out    io.WriterAt
	title  Title
	buf    []byte // written at
	at     int64
	block  []byte
	marks  int // in block
	bytes  int // of their keys
	adds   int64
	first  []byte
	last   []byte
	list   []byte
	failed error
}

const writeBytes = 256 << 10

// NewWriter begins the run of the given number, of the store of the given identity. sure means that each mark
// was made with knowledge of the layers below.
func NewWriter(out io.WriterAt, store, run uint64, sure bool) *Writer {
	return &Writer{out: out, title: Title{Store: store, Run: run, Sure: sure}, at: titleBytes}
}

// Add adds a mark, of a key that is gone, or that the layers below do not show, or neither. The key must be
// greater than the one before.
func (w *Writer) Add(key []byte, gone, fresh bool) error {
	switch {
	case w.failed != nil:
		return w.failed
	case w.title.Keys > 0 && bytes.Compare(w.last, key) >= 0:
		panic("order: keys of a run must ascend")
	case len(key) > MaxKeyBytes:
		panic("order: a key is too long for a run")
	}
	last := w.last
	if w.marks == 0 {
		w.first = append(w.first[:0], key...)
		last = nil
	}
	w.block = appendMark(w.block, last, key, gone, fresh)
	w.marks++
	w.adds += adds(gone, fresh)
	w.title.Keys++
	w.last = append(w.last[:0], key...)
	w.bytes += len(key)
	if w.marks >= blockMarks || len(w.block) >= blockBytes || w.bytes >= keysBytes {
		w.failed = w.endBlock()
	}
	return w.failed
}

// AddAll adds all marks that a cursor yields, but no mark of a key that came and went.
func (w *Writer) AddAll(c Cursor) error {
	for c.Next() {
		if c.Gone() && c.Fresh() {
			continue
		}
		if err := w.Add(c.Key(), c.Gone(), c.Fresh()); err != nil {
			return err
		}
	}
	return c.Err()
}

func (w *Writer) endBlock() error {
	if w.marks == 0 {
		return nil
	}
	w.list = binary.AppendUvarint(w.list, uint64(len(w.block)))
	w.list = binary.AppendUvarint(w.list, uint64(w.marks))
	w.list = binary.AppendVarint(w.list, w.adds)
	w.list = binary.LittleEndian.AppendUint32(w.list, crc32.Checksum(w.block, castagnoli))
	w.list = binary.AppendUvarint(w.list, uint64(len(w.first)))
	w.list = append(w.list, w.first...)
	w.title.Blocks++
	err := w.write(w.block)
	w.block, w.marks, w.bytes, w.adds = w.block[:0], 0, 0, 0
	return err
}

func (w *Writer) write(b []byte) error {
	w.buf = append(w.buf, b...)
	if len(w.buf) < writeBytes {
		return nil
	}
	return w.flush()
}

func (w *Writer) flush() error {
	_, err := w.out.WriteAt(w.buf, w.at)
	w.at += int64(len(w.buf))
	w.buf = w.buf[:0]
	return err
}

// Finish completes the run, and returns its first line. The caller syncs the file.
func (w *Writer) Finish() (Title, error) {
	if w.failed == nil {
		w.failed = w.endBlock()
	}
	if w.failed == nil {
		w.title.List = w.at + int64(len(w.buf))
		w.title.Length, w.title.CRC = int64(len(w.list)), crc32.Checksum(w.list, castagnoli)
		w.buf = append(w.buf, w.list...)
		w.failed = w.flush()
	}
	if w.failed == nil {
		_, w.failed = w.out.WriteAt(w.title.encode(), 0)
	}
	return w.title, w.failed
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
