package engine

import "testing"

// Sorting takes a share of the memory that the store may take, and not less or more than is good for it.
func TestSortBytes(t *testing.T) {
	for maxMemory, want := range map[int64]int{1 << 20: 32 << 20, 1 << 30: 32 << 20, 4 << 30: 128 << 20, 1 << 40: 256 << 20} {
		s := &Store{opts: Options{MaxMemory: maxMemory}}
		if got := s.sortBytes(); got != want {
			t.Errorf("of %d: %d, want %d", maxMemory, got, want)
		}
	}
}
