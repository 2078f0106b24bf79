package seglog

// A lookahead asks the file system for records that are about to be read, in the order of a sorted list of addresses.
// Reads of segments do not read ahead by themselves, as most are of single records; one after the other they would
// wait for the disk each time.
//
// It asks for windows of the log in which the wanted records are not too sparse. A window that is in memory already
// costs one call.
//
// Its benefit: All over a map of 200,000 values of 1000 bytes that the page cache does not have takes 3.1 times
// as long without it (2.4–3.7), Keys 1.8 times (1.6–2.1); of 300,000 values of 100 bytes 2.1 (1.9–2.5) and 1.5
// times (1.2–2.1). Where the page cache has them all it makes no difference (1.0). With and without in turns
// within one run, medians of 7, on ext4 and a virtual disk, 2026-11-22; "go run ./years values" in bench
// measures such an All over 10 GiB.
type Lookahead struct {
	Log  *Log
	List []Address
	next int // the first address that has not been looked at

	Sparse int64 // bytes of the log for each record that is wanted, beyond which they are read one by one
}

const (
	windowBytes  = 1 << 20 // of a window
	windowsAhead = 4       // windows that are requested before they are read

	SparseValues = 256 << 10
	SparseKeys   = 8 << 10
)

// Reach prefetches the records after the i-th address. The caller has pinned the segments, or uses
// the store.
func (l *Lookahead) Reach(i int) {
	for l.next < len(l.List) && (l.next <= i || l.List[l.next]-l.List[i] < windowsAhead*windowBytes) {
		l.window()
	}
}

// window requests the next one.
func (l *Lookahead) window() {
	first := l.next
	slot, from := SplitAddress(l.List[first])
	end := AddressOf(slot, from) + windowBytes
	for l.next < len(l.List) && l.List[l.next] < end {
		l.next++
	}
	bytes := int64(windowBytes) // the last record goes on until the next one begins, or its end is unknown
	if l.next < len(l.List) {
		bytes = min(int64(l.List[l.next]-l.List[first]), bytes)
	}
	if bytes/int64(l.next-first) > l.Sparse {
		return
	}
	if seg := l.Log.Segment(slot); seg != nil {
		if f, ok := seg.File.(prefetcher); ok {
			f.Prefetch(from, bytes)
		}
	}
}

// prefetcher is a file that can load bytes in advance. It is a hint.
type prefetcher interface{ Prefetch(off, n int64) }
