package repair

import (
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Repair takes a group as a whole or not at all. The commit says how many members there were. When fewer are
// left, they were lost with damaged bytes, or compaction has left them out because they did not count any more.
// Recovery asks the same of a log that it believes; here, too, a group may be short when compaction has been
// anywhere behind its first member. Where there are both, compaction and damage, nothing tells which of them it
// was, and what is intact is taken.
//
// Where compaction has been, the manifest says. Without it, a compacted segment says so, and a place in the log
// at which there is no segment passes for one that was compacted to nothing.
//
// The members are written where they stand, before it is known what becomes of their group. It is the commit that
// is left out then, without which they do not count.

// member writes a member of a group. What is to be said of it waits for the commit.
func (r *repair) member(p place, e seglog.Record) error {
	g := r.groups[e.Group]
	if g == nil {
		g = new(Report)
		r.groups[e.Group] = g
	}
	g.Intact++
	return r.write(p, e, g)
}

// commit lets the members of a group count from here on, if none is lost.
func (r *repair) commit(p place, e seglog.Record) error {
	g := r.groups[e.Group]
	if g == nil {
		g = new(Report)
	}
	delete(r.groups, e.Group)
	if n, err := record.ParseHex(string(e.Value)); err == nil && uint64(g.Intact) < n && e.Group >= r.whole {
		r.report.Grouped += g.Intact + 1
		return nil
	}
	r.report.Saved += g.Saved
	r.report.Values = append(r.report.Values, g.Values...)
	r.report.Raw += g.Raw
	return r.write(p, e, &r.report)
}

// leftOutBefore notes what compaction has left out between a segment and the one before.
func (r *repair) leftOutBefore(w *wreck) {
	before := r.before
	r.before = w
	switch m := w.named; {
	case m == nil: // nothing but the places in the log tells
		if first := r.firstOf(w); first > r.reach+1 && (before == nil || before.id.Generation() > 0 || w.id.Order() > before.id.Order()+1) {
			r.whole = first
		}
	case m.Sealed && m.Records > 0 && m.First > r.reach+1:
		r.whole = m.First
	case !m.Sealed && r.manifest.Floor > r.reach:
		r.whole = r.manifest.Floor + 1
	}
}

// leftOut notes what compaction has left out before a record of a segment.
func (r *repair) leftOut(w *wreck, e *seglog.Record) {
	if e.Seq > r.reach+1 && w.id.Generation() > 0 {
		r.whole = e.Seq
	}
	r.reach = max(r.reach, e.Seq)
}

// leftOutAfter notes what compaction has left out at the end of a segment.
func (r *repair) leftOutAfter(w *wreck) {
	if w.named == nil || w.named.Last <= r.reach {
		return
	}
	if r.reach = w.named.Last; w.id.Generation() > 0 {
		r.whole = r.reach + 1
	}
}

// firstOf is the sequence number of the first fragment.
func (r *repair) firstOf(w *wreck) uint64 {
	if len(w.fragments) > 0 {
		if e, _, err := w.load(w.fragments[0], nil); err == nil {
			return e.Seq
		}
	}
	return 0
}
