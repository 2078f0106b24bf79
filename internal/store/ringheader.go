package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"
)

const (
	ringName   = "RING"
	ringTemp   = "RING.tmp"
	ringLine   = 4096         // bytes of the first line, so that what follows begins with a page
	ringHead   = 2 * ringLine // bytes before the data, which begins with a page, too
	ringBlocks = laps.Blocks
)

// errRingSize is the reason why a ring with another size than its header says is of no use.
var errRingSize = errors.New("its length is not what its first line says")

// ringHeader is what the first line says.
type ringHeader struct {
	store, id uint64
	size      int64
	file      string // ID of the file itself, so that no copy passes for it; "" when unknown
}

// encode is the text of the line.
func (h *ringHeader) encode() []byte {
	line := fmt.Sprintf("%s store %016x id %016x size %x file %s", record.Title("ring"), h.store, h.id, h.size, orDash(h.file))
	return record.Seal(append([]byte(line), bytes.Repeat([]byte(" "), max(ringLine-10-len(line), 0))...))
}

// parseRingHeader reads what encode writes.
func parseRingHeader(text []byte) (h ringHeader, err error) {
	body, err := record.Unseal(text, "ring")
	if err != nil {
		return h, err
	}
	for len(body) > 0 && body[len(body)-1] == ' ' {
		body = body[:len(body)-1]
	}
	f := record.NewFields(body)
	h = ringHeader{f.Fixed("store"), f.Fixed("id"), int64(f.Hex("size")), unDash(f.Word("file"))}
	if err := f.End(); err != nil {
		return h, err
	}
	if h.id == 0 || len(h.file) > maxWordBytes || h.size <= 0 || h.size > maxSegmentBytes || h.size%ringBlocks != 0 {
		return h, fmt.Errorf("%w: ring %016x of %d bytes", record.ErrSyntax, h.id, h.size)
	}
	return h, nil
}

// ackedBytes is the length of the number. The byte behind it is 1 when the ring was left.
const ackedBytes = 8
