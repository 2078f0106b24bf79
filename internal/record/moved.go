package record

// The attribute m marks the record of a large value that compaction has rewritten at the end of the
// log, and has the number of the original: a history leaves the copy out. Readers that do not know
// the attribute may skip it, so it is among the others.
const movedTag = 'm'

// moved returns the place of the attribute in Other, from its space on; both are 0 if there is
// none.
func (h *Head) moved() (from, to int) {
	for i := 0; i+1 < len(h.Other); i++ {
		if h.Other[i] != ' ' || h.Other[i+1] != movedTag {
			continue
		}
		for to = i + 1; to < len(h.Other) && h.Other[to] != ' '; to++ {
		}
		return i, to
	}
	return 0, 0
}

// Moved reports whether the record has the attribute.
func (h *Head) Moved() bool {
	_, to := h.moved()
	return to > 0
}

// MovedFrom is the number of the record of which this one is a copy, 0 if it is none.
func (h *Head) MovedFrom() uint64 {
	from, to := h.moved()
	if to == 0 {
		return 0
	}
	seq, err := ParseHex(h.Other[from+2 : to])
	if err != nil {
		return 0 // by another version, which means something else
	}
	return seq
}

// SetMoved makes the record a copy of the one with this number, if it is none of another.
func (h *Head) SetMoved(seq uint64) {
	if h.Moved() {
		return
	}
	at := h.otherBefore(movedTag)
	h.Other = h.Other[:at] + " " + string(movedTag) + Hex(seq) + h.Other[at:]
}

// NotMoved makes the record no copy.
func (h *Head) NotMoved() {
	from, to := h.moved()
	h.Other = h.Other[:from] + h.Other[to:]
}
