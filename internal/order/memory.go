package order

import "io"

// memory is the file of a run that is in memory.
type memory []byte

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if need := int(off) + len(p); need > len(*m) {
		*m = append(*m, make([]byte, need-len(*m))...)
	}
	return copy((*m)[off:], p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(*m)) {
		return 0, io.EOF
	}
	n := copy(p, (*m)[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// InMemory makes a run in memory of the marks of a cursor. It takes a fraction of the memory of a tree with the
// same keys.
func InMemory(c Cursor, sure bool) (*Run, error) {
	var m memory
	w := NewWriter(&m, 0, 0, sure)
	if err := w.AddAll(c); err != nil {
		return nil, err
	}
	if _, err := w.Finish(); err != nil {
		return nil, err
	}
	m = append(make(memory, 0, len(m)), m...)
	return Open(&m, int64(len(m)), 0, 0)
}
