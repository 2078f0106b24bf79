package hybridlog

import "testing"

// Who finds that a segment has ended takes its last block to be as long as it has become: the sum is of all of
// that, and what he has seen of the block before would pass for damage.
func TestLastBlockOfASegmentThatEnds(t *testing.T) {
	const first, all = 100, 300
	c := &content{}
	for range 40 {
		segments := make([]segment, 50_000)
		for i := range segments {
			segments[i].bytes.End.Store(first)
		}
		go func() {
			for i := range segments {
				segments[i].bytes.End.Store(all)
				segments[i].ended.Store(true)
			}
		}()
		for i := range segments {
			s := &segments[i]
			_, end, known := s.block(c, 0)
			for !known {
				_, end, known = s.block(c, 0)
			}
			if end != all {
				t.Fatalf("the sum of the last block is known, and that has %d bytes of %d", end, all)
			}
		}
	}
}
