package repair

import (
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Repair takes a group as a whole or not at all. The commit says how many members there were. When
// fewer are left, they were lost with damaged bytes, or compaction has left them out because they
// did not count any more. Recovery applies the same rule to a log that it trusts; here, too, a
// group may be short if any segment after its first member was compacted. If there are both,
// compaction and damage, the cause is unknown, and the intact members are taken.
//
// The manifest shows which segments were compacted. Without it, a compacted segment is marked as
// such, and a place in the log without a segment counts as one that was compacted to nothing.
//
// The members are written in their order, before the fate of their group is known. If they do not
// count, the commit is left out.

// member writes a member of a group. Its report waits for the commit.
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

// leftOutBefore notes the records that compaction has left out between a segment and the previous
// one.
func (r *repair) leftOutBefore(w *wreck) {
	before := r.before
	r.before = w
	switch m := w.named; {
	case m == nil: // only the places in the log show it
		if first := r.firstOf(w); first > r.reach+1 && (before == nil || before.id.Generation() > 0 || w.id.Order() > before.id.Order()+1) {
			r.whole = first
		}
	case m.Sealed && m.Records > 0 && m.First > r.reach+1:
		r.whole = m.First
	case !m.Sealed && r.manifest.Floor > r.reach:
		r.whole = r.manifest.Floor + 1
	}
}

// leftOut notes the records that compaction has left out before a record of a segment.
func (r *repair) leftOut(w *wreck, e *seglog.Record) {
	if e.Seq > r.reach+1 && w.id.Generation() > 0 {
		r.whole = e.Seq
	}
	r.reach = max(r.reach, e.Seq)
}

// leftOutAfter notes the records that compaction has left out at the end of a segment.
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
