package store

// Stats is what the store counts.
type Stats struct {
	Keys       int64
	Records    int64
	LiveBytes  int64
	LogBytes   int64
	IndexBytes int64
	CacheBytes int64
	Segments   int
	TornBytes  int64
	Compacted  int64 // segments replaced since the store was opened
}

// Stats counts. It takes no lock that a writer holds for long.
func (s *Store) Stats() Stats {
	defer s.life.leave(s.life.enter())
	st := Stats{Records: s.log.records.Load(), TornBytes: s.torn, CacheBytes: s.budget.Used()}
	st.Keys = s.entriesInside()
	for _, sp := range s.spaces {
		for _, t := range sp.tables() {
			st.IndexBytes += t.index.Bytes()
			if d := t.deadlines.Load(); d != nil {
				st.IndexBytes += d.bytes.Load()
			}
		}
		st.IndexBytes += sp.elements.index.Bytes()
	}
	for _, seg := range s.log.set.Load().ordered {
		if seg.unlisted.Load() {
			continue
		}
		end := seg.end.Load()
		st.LogBytes += end
		st.LiveBytes += max(end-seg.dead.Load(), 0)
		st.Segments++
	}
	st.Compacted = s.log.compacted.Load()
	return st
}

// entries counts the entries that users gave.
func (s *Store) entries() int64 {
	defer s.life.leave(s.life.enter())
	return s.entriesInside()
}

func (s *Store) entriesInside() (n int64) {
	for _, sp := range s.spaces {
		for _, t := range sp.tables() {
			n += int64(t.Len())
		}
	}
	return n
}
