package engine

import "time"

// Stats are the counts and sizes of a store.
type Stats struct {
	Keys       int64
	Records    int64
	LiveBytes  int64
	LogBytes   int64
	IndexBytes int64
	CacheBytes int64
	Segments   int
	TornBytes  int64
	Views      int64         // that are open
	ViewBytes  int64         // memory of the former states of entries, for views
	HeldBytes  int64         // of segments out of use that have a holder
	Behind     time.Duration // time by which the clock is behind the newest record; 0 for none
	Compacted  int64         // segments replaced since the store was opened
}

// Stats returns the counts. It takes no lock that a writer holds for long.
func (s *Store) Stats() Stats {
	st := Stats{Records: s.log.Records.Load()}
	st.Keys, st.Behind = s.entries(), s.clockBehind() // each enters the gate itself
	defer s.life.leave(s.life.enter())
	st.TornBytes, st.CacheBytes = s.torn, s.budget.Used()
	for _, sp := range s.spaces {
		for _, t := range append(sp.tables(), sp.elements) {
			st.IndexBytes += t.index.Bytes()
			if t.name != "" {
				st.IndexBytes += tableBytes
			}
			if t.cells.Load() != nil {
				st.IndexBytes += cellsBytes
			}
			if o := t.order.Load(); o != nil {
				st.IndexBytes += o.memory()
			}
			if d := t.deadlines.Load(); d != nil {
				st.IndexBytes += d.bytes.Load()
			}
		}
	}
	for _, r := range s.outOfUse() {
		st.HeldBytes += r.End.Load()
	}
	for _, seg := range s.log.Segments() {
		end := seg.End.Load()
		st.LogBytes += end
		st.LiveBytes += max(end-seg.Dead.Load(), 0)
		st.Segments++
	}
	st.Views, st.ViewBytes = s.views.open.Load(), s.views.bytes.Load()
	st.Compacted = s.log.Compacted.Load()
	return st
}

// RecordsAbove returns a function that reports whether the log of a store has more than ratio records for each entry.
func RecordsAbove(ratio float64) func(*Store) bool {
	return func(s *Store) bool { return float64(s.log.Records.Load()) > ratio*float64(max(s.entries(), 1)) }
}

// clockBehind returns the time by which the newest record is ahead of the clock.
func (s *Store) clockBehind() (by time.Duration) {
	s.still(func() { by = s.log.ClockBehind() })
	return by
}

// entries counts the entries of users. It is called outside of the gate, which counting may enter itself. When
// a map is declared meanwhile, entries may have moved to a table that was not listed: then all is done again.
func (s *Store) entries() (n int64) {
	for {
		n = 0
		tables := s.userTables()
		s.beforeCounting(tables...)
		for _, t := range tables {
			n += int64(t.counted.read(t))
		}
		if len(s.userTables()) == len(tables) {
			return n
		}
	}
}

// userTables returns the tables of all entries of users, in all key spaces.
func (s *Store) userTables() (list []*Table) {
	defer s.life.leave(s.life.enter())
	for _, sp := range s.spaces {
		list = append(list, sp.tables()...)
	}
	return list
}
