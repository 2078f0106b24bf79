package seglog

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"
)

const (
	RingName   = "RING"
	RingTemp   = RingName + files.TempSuffix
	RingLine   = 4096         // bytes of the first line, so that what follows begins with a page
	RingHead   = 2 * RingLine // bytes before the data, which begins with a page, too
	RingBlocks = laps.Blocks
)

// ErrRingSize is the reason why a ring with another size than its header says is of no use.
var ErrRingSize = errors.New("its length is not what its first line says")

// RingHeader is what the first line says.
type RingHeader struct {
	Store, ID uint64
	Size      int64
	File      string // ID of the file itself, so that no copy passes for it; "" when unknown
}

// Encode is the text of the line.
func (h *RingHeader) Encode() []byte {
	return record.SealPadded(fmt.Sprintf("%s store %016x id %016x size %x file %s", record.Title("ring"), h.Store, h.ID, h.Size, record.Name(h.File)), RingLine)
}

// ParseRingHeader reads what encode writes.
func ParseRingHeader(text []byte) (h RingHeader, err error) {
	f, err := record.UnsealPadded(text, "ring")
	if err != nil {
		return h, err
	}
	h = RingHeader{f.Fixed("store"), f.Fixed("id"), int64(f.Hex("size")), f.Name("file")}
	if err := f.End(); err != nil {
		return h, err
	}
	if h.ID == 0 || h.Size <= 0 || h.Size > MaxSegmentBytes || h.Size%RingBlocks != 0 {
		return h, fmt.Errorf("%w: ring %016x of %d bytes", record.ErrSyntax, h.ID, h.Size)
	}
	return h, nil
}

// AckedBytes is the length of the number. The byte behind it is 1 when the ring was left.
const AckedBytes = 8
