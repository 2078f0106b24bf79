package hybridlog

import "testing"

// A reader that finds that a segment has ended takes its last block to be as long as it has become.
// The sum is of that whole block, so the part of the block that the reader saw before would pass
// for damage.
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
