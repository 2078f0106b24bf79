package engine

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// groupModel is a store that is written to in groups, and a map that it must be like.
type groupModel struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *vfs.Mem
	s       *Store
	reader  *Store
	content map[string]string
}

func (m *groupModel) open() {
	if m.rng.IntN(2) == 0 {
		logtest.RemoveIndex(m.mem, "db") // if it is there
	}
	m.s = mustOpen(m.t, m.mem, func(o *Options) {
		o.SegmentBytes, o.MaxMemory, o.GroupBytes = 3000, 1<<20, int64(500+m.rng.IntN(4000))
	})
}

// group writes several entries that count together.
func (m *groupModel) group(n int) {
	changes := map[string]*Change{}
	content := maps.Clone(m.content)
	for range 1 + m.rng.IntN(60) {
		key := []string{"m:", "n:", ""}[m.rng.IntN(3)] + fmt.Sprint(m.rng.IntN(60))
		value := fmt.Sprint("group ", n, strings.Repeat("y", m.rng.IntN(100)))
		if m.rng.IntN(1500) == 0 {
			value = strings.Repeat(value, 2*seglog.PartBytes/len(value))
		}
		changes[key] = &Change{Write: Write{Key: []byte(key), Value: []byte(value)}}
		content[key] = value
		if m.rng.IntN(4) == 0 {
			changes[key].Delete, changes[key].Value = true, nil
			delete(content, key)
		}
	}
	var list []*Change
	for _, c := range changes {
		list = append(list, c)
	}
	if err := m.s.WriteAll(list, Durability(m.rng.IntN(2))); err != nil {
		m.t.Fatal(err)
	}
	m.content = content
}

func (m *groupModel) step(n int) {
	t, s := m.t, m.s
	switch m.rng.IntN(16) {
	case 0, 1, 2:
		key := fmt.Sprint("m:", m.rng.IntN(60))
		mustSet(t, s, key, "alone")
		m.content[key] = "alone"
	case 3, 4, 5:
		compactSome(t, s, m.rng)
	case 6:
		s.tidyOnce()
	case 8:
		s.housekeeping.Lock()
		err := s.takeSnapshot(nil)
		s.housekeeping.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	case 9:
		if err := s.Compact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	case 10:
		mustClose(t, s)
		m.open()
	case 11:
		s.lock.Close() // it dies
		m.open()
	case 12:
		if err := m.reader.Refresh(); err != nil {
			t.Fatalf("Refresh: %v", err)
		}
		m.reader.wantSame(t, m.content)
	case 13:
		s.wantSame(t, m.content)
	case 14:
		if m.rng.IntN(4) == 0 {
			m.copies()
		}
	default:
		m.group(n)
	}
}

// copies backs the store up, and repairs a copy that nothing is wrong with.
func (m *groupModel) copies() {
	t := m.t
	mustBackup(t, m.s, "copy")
	if err := mustCheck(t, m.mem); err != nil {
		t.Fatal(err)
	}
	copied, err := Open("copy", testOptions(m.mem, func(o *Options) { o.ReadOnly = true }))
	if err != nil {
		t.Fatal(err)
	}
	copied.wantSame(t, m.content)
	mustClose(t, copied)
	image := m.mem.ProcessCrash()
	if _, err := repairImage(image); err != nil {
		t.Fatal(err)
	}
	mended, err := Open("mended", testOptions(image))
	if err != nil {
		t.Fatal(err)
	}
	mended.wantSame(t, m.content)
	mustClose(t, mended)
}

// mustCheck returns the first problem that Check finds.
func mustCheck(t testing.TB, fsys vfs.FS) error {
	t.Helper()
	r, err := Check(context.Background(), "db", fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) > 0 {
		return &r.Problems[0]
	}
	return nil
}

// TestGroupsModel writes groups of every length and holds the store against a map, with whoever else reads the
// log: compaction, snapshots of the index, a follower, backups, Repair, Check, and the next opening.
func TestGroupsModel(t *testing.T) {
	scripts := 5
	if longTest() {
		scripts = 500
	}
	compacted, spread := int64(0), 0
	for seed := range uint64(scripts) {
		m := &groupModel{t: t, rng: rand.New(rand.NewPCG(seed, 41)), mem: vfs.NewMem(), content: map[string]string{"m:1": "1"}}
		m.open()
		mustSet(t, m.s, "m:1", "1")
		m.reader = mustOpen(t, m.mem, func(o *Options) { o.ReadOnly = true })
		for n := range 300 {
			m.step(n)
			spread = max(spread, len(m.s.log.Spread))
		}
		m.s.wantSame(t, m.content)
		compacted += m.s.log.Compacted.Load()
		mustClose(t, m.reader)
		mustClose(t, m.s)
	}
	if compacted == 0 || spread < 3 {
		t.Errorf("%d segments compacted, %d groups in several segments", compacted, spread)
	}
}

// TestGroupAbandoned: records written ahead by an abandoned group are dead, and are removed.
func TestGroupAbandoned(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 1000; o.GroupBytes = 100 })
	mustSet(t, s, "a", "1")
	var changes []*Change
	for n := range 50 {
		changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, "key ", n), Value: []byte(strings.Repeat("v", 50))}})
	}
	g := &together{store: s, changes: changes}
	g.group.Log = s.log
	if err := g.prepare(); err != nil {
		t.Fatal(err)
	}
	g.group.End()
	s.wantSame(t, map[string]string{"a": "1"})
	if u := s.usage(); u.log < 4000 || u.live > 1000 {
		t.Errorf("before Compact: %+v", u)
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if u := s.usage(); u.log > 1500 {
		t.Errorf("after Compact: %+v", u)
	}
	s.wantSame(t, map[string]string{"a": "1"})
	mustClose(t, s)
}

// TestSpreadGroupIsCompactedAlone: a run of one segment with members of a group that goes on far after it is
// compacted, and read once. A commit of the group in the tail prevents no compaction.
func TestSpreadGroupIsCompactedAlone(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 })
	content := map[string]string{}
	for round := range 10 { // each of them ends in the segment in which the next one begins
		var changes []*Change
		for n := range 40 {
			key, value := fmt.Sprint("key ", n), fmt.Sprint(round, strings.Repeat("v", 80))
			changes = append(changes, &Change{Write: Write{Key: []byte(key), Value: []byte(value)}})
			content[key] = value
		}
		if err := s.WriteAll(changes, Process); err != nil {
			t.Fatal(err)
		}
	}
	for s.tidyOnce() {
	}
	if u := s.usage(); u.log > 2*u.live+3*s.log.SegmentBytes {
		t.Errorf("%+v", u)
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if u := s.usage(); u.log > u.live+2*s.log.SegmentBytes || s.log.Compacted.Load() > 80 {
		t.Errorf("after Compact: %+v, %d compacted", u, s.log.Compacted.Load())
	}
	s.wantSame(t, content)
	mustClose(t, s)
	logtest.RemoveIndex(mem, "db")
	s = mustOpen(t, mem)
	s.wantSame(t, content)
	mustClose(t, s)
}
