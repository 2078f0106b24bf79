package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// logReader reads the records of entries as they come, before compaction can come by.
type logReader struct{ next uint64 }

// some are the records since the last call, each as a line with its key in front: "k S v until 3", "k E 3". Those of
// a range deletion have the key "*".
func (r *logReader) some(t testing.TB, s *Store) (list []string) {
	t.Helper()
	if r.next == 0 {
		r.next = 1
	}
	var c seglog.Cursor
	var members []string // of a group, which count with its commit
	c.Start(s.log, r.next, seglog.Position{})
	defer c.Leave()
	for c.Next <= s.log.Last() {
		rec, _, err := c.Read()
		if err != nil {
			t.Fatalf("record %d: %v", c.Next, err)
		}
		if rec.Op == record.Commit {
			list, members = append(list, members...), nil
			continue
		}
		if rec.Kind != record.Value && rec.Kind != record.Meta {
			continue
		}
		if rec.Op == record.Expire && rec.Written < rec.Expiry {
			t.Fatalf("the end of %q is written %d ms before its deadline", rec.Key, rec.Expiry-rec.Written)
		}
		if line := lineOf(&rec); rec.Group != 0 {
			members = append(members, line)
		} else {
			list = append(list, line)
		}
	}
	r.next = c.Next
	return list
}

func lineOf(rec *seglog.Record) string {
	switch rec.Op {
	case record.Set:
		return lineOfSet(string(rec.Key), string(rec.Value), rec.Expiry)
	case record.Expire:
		return lineOfEnd(string(rec.Key), rec.Expiry)
	case record.Range:
		return "* " + string(rec.Key)
	}
	return string(rec.Key) + " " + string(rec.Op)
}

func lineOfSet(key, value string, expiry uint64) string {
	return fmt.Sprintf("%s S %s until %d", key, value, expiry)
}

func lineOfEnd(key string, expiry uint64) string { return fmt.Sprintf("%s E %d", key, expiry) }

// endsModel models a store and the ends that its log must have.
type endsModel struct {
	t      *testing.T
	rng    *rand.Rand
	clock  *logtest.Clock
	mem    *vfs.Mem
	s      *Store
	cells  *Cells
	reader logReader

	logged  map[string]endsEntry // as the log has it
	pending map[string]endsEntry // set asynchronously
	want    map[string][]string  // records of each key
	got     map[string][]string
}

type endsEntry struct {
	value  string
	expiry uint64
}

func (e endsEntry) expired(now uint64) bool { return e.expiry != 0 && e.expiry <= now }

func (m *endsModel) open() {
	m.s = mustOpen(m.t, m.mem, withClock(m.clock), func(o *Options) {
		o.SegmentBytes, o.GroupBytes = 1500, 400
	})
	m.s.TellExpiry(m.s.RawTable())
	m.cells = attached(m.t, m.s, "users")
	m.s.TellExpiry(m.cells.owner)
}

func (m *endsModel) now() uint64 { return uint64(m.clock.Now().UnixMilli()) }

func (m *endsModel) wants(key, line string) { m.want[key] = append(m.want[key], line) }

// ends is the first step of a writer of a key: the end of an expired entry is written first.
func (m *endsModel) ends(key string) {
	if e, is := m.pending[key]; is {
		if e.expired(m.now()) {
			delete(m.pending, key)
			m.end(key, e)
		}
		return
	}
	if e, is := m.logged[key]; is && e.expired(m.now()) {
		m.end(key, e)
	}
}

func (m *endsModel) end(key string, e endsEntry) {
	if _, is := m.logged[key]; is {
		m.wants(key, lineOfEnd(key, e.expiry))
		delete(m.logged, key)
	}
}

func (m *endsModel) set(key, value string, expiry uint64) {
	delete(m.pending, key)
	m.logged[key] = endsEntry{value, expiry}
	m.wants(key, lineOfSet(key, value, expiry))
}

func (m *endsModel) delete(key string) {
	if _, is := m.logged[key]; is {
		m.wants(key, key+" D")
	}
	delete(m.pending, key)
	delete(m.logged, key)
}

// flushes models the flush of asynchronous writes.
func (m *endsModel) flushes() {
	for key, e := range m.pending {
		if delete(m.pending, key); e.expired(m.now()) {
			m.end(key, e)
		} else {
			m.set(key, e.value, e.expiry)
		}
	}
}

func (m *endsModel) flush() {
	m.flushes()
	if err := m.s.Flush(m.cells); err != nil {
		m.t.Fatal(err)
	}
}

// shown are the entries that a reader finds.
func (m *endsModel) shown() int {
	n := 0
	for _, e := range m.pending {
		if !e.expired(m.now()) {
			n++
		}
	}
	for key, e := range m.logged {
		if _, is := m.pending[key]; !is && !e.expired(m.now()) {
			n++
		}
	}
	return n
}

func (m *endsModel) deadline() uint64 {
	if m.rng.IntN(4) == 0 {
		return 0
	}
	return m.now() + 1 + m.rng.Uint64N(300)
}

func (m *endsModel) key() string {
	return []string{"users:", "k"}[m.rng.IntN(2)] + fmt.Sprint(m.rng.IntN(6))
}

func (m *endsModel) step(n int) {
	key, value, deadline := m.key(), fmt.Sprint("v", n), m.deadline()
	var err error
	switch m.rng.IntN(16) {
	case 0, 1, 2, 3:
		m.ends(key)
		m.set(key, value, deadline)
		_, err = m.s.Write(nil, &Write{Key: []byte(key), Value: []byte(value), Expiry: deadline})
	case 4:
		m.ends(key)
		m.delete(key)
		_, err = m.s.Delete(nil, []byte(key), Process)
	case 5:
		m.flush()
		m.ends(key)
		if e, is := m.logged[key]; is && e.expiry != deadline {
			m.set(key, e.value, deadline)
		}
		if err = m.s.Expire(nil, nil, []byte(key), deadline, Process); err == ErrNotFound {
			err = nil
		}
	case 6, 7:
		if key[0] != 'u' {
			return
		}
		m.ends(key)
		m.pending[key] = endsEntry{value, deadline}
		w := Write{Key: []byte(key), Cells: m.cells, Value: []byte(value), Durability: Async, Cell: &cache.Cell{}, Cost: 100, Expiry: deadline}
		_, err = m.s.Write(m.cells.owner, &w)
	case 8:
		m.flush()
	case 9:
		m.group(n)
	case 10:
		m.deleteRange()
	case 11:
		m.tell()
	case 12:
		if m.rng.IntN(2) == 0 {
			err = compactRun(m.s, m.rng.IntN(20))
		} else {
			m.s.housekeeping.Lock()
			err = m.s.takeSnapshot(nil)
			m.s.housekeeping.Unlock()
		}
	case 13:
		m.reopen()
	default:
		m.clock.Advance(time.Duration(m.rng.IntN(120)) * time.Millisecond)
	}
	if err != nil {
		m.t.Fatalf("step %d: %v", n, err)
	}
}

// group writes several keys at once.
func (m *endsModel) group(n int) {
	var changes []*Change
	keys := map[string]bool{}
	for range 2 + m.rng.IntN(8) {
		key, value, deadline := m.key(), fmt.Sprint("group", n), m.deadline()
		if keys[key] {
			continue
		}
		keys[key] = true
		m.ends(key)
		if _, is := m.logged[key]; is && m.rng.IntN(4) == 0 {
			m.delete(key)
			changes = append(changes, &Change{Write: Write{Key: []byte(key), Delete: true}})
			continue
		}
		m.set(key, value, deadline)
		changes = append(changes, &Change{Write: Write{Key: []byte(key), Value: []byte(value), Expiry: deadline}})
	}
	if err := m.s.WriteAll(changes, Process); err != nil {
		m.t.Fatal(err)
	}
}

// deleteRange deletes all keys with one prefix. The ends of expired ones are written before.
func (m *endsModel) deleteRange() {
	m.flushes() // for the view that is opened first
	prefix := m.key()[:1]
	for key := range m.logged {
		if m.ends(key); key[:1] == prefix {
			delete(m.logged, key)
		}
	}
	if err := m.s.DeleteRange(keyrange.Prefix([]byte(prefix)), Process); err != nil {
		m.t.Fatal(err)
	}
}

// tell does the work of the goroutine that removes expired entries.
func (m *endsModel) tell() {
	before := m.s.log.Wrote()
	if !before { // it is owed until something is written
		if err := m.s.log.Begin(); err != nil {
			m.t.Fatal(err)
		}
	}
	if _, err := m.s.expireDue(); err != nil {
		m.t.Fatal(err)
	}
	for _, list := range []map[string]endsEntry{m.pending, m.logged} {
		for key := range list {
			m.ends(key)
		}
	}
}

func (m *endsModel) reopen() {
	m.read()
	switch m.rng.IntN(3) {
	case 0:
		m.mem = m.mem.ProcessCrash()
		clear(m.pending)
	default:
		m.flushes()
		mustClose(m.t, m.s)
	}
	m.clock.Advance(time.Duration(m.rng.IntN(120)) * time.Millisecond)
	files := logtest.ContentOfDir(m.t, m.mem, "db")
	m.open()
	if m.rng.IntN(3) == 0 { // to look writes nothing
		m.count()
		if _, err := m.s.expireDue(); err != nil {
			m.t.Fatal(err)
		}
		m.count()
		for name, text := range logtest.ContentOfDir(m.t, m.mem, "db") {
			if logtest.IsLog(name) && files[name] != text {
				m.t.Fatalf("opening has changed %s", name)
			}
		}
	}
}

func (m *endsModel) count() {
	m.t.Helper()
	n := 0
	for _, t := range []*Table{m.s.RawTable(), m.cells.owner} {
		n += t.Len()
	}
	if want := m.shown(); n != want {
		m.t.Fatalf("Len = %d, want %d", n, want)
	}
}

func (m *endsModel) read() {
	for _, line := range m.reader.some(m.t, m.s) {
		key := line[:slices.Index([]byte(line), ' ')]
		if e, is := m.pending[key]; is && line == lineOfSet(key, e.value, e.expiry) {
			m.set(key, e.value, e.expiry) // whatever has made the log learn of it
		} else if is && e.expired(m.now()) && line == lineOfEnd(key, e.expiry) {
			m.ends(key)
		}
		m.got[key] = append(m.got[key], line)
	}
}

// TestEndsAreTold: the log of a table with ends as records has one E for each entry that expires while it is the
// newest of its key, before the key's next record, and none for any other, whatever ends the process, whatever
// compaction removes, and whatever a snapshot of the index has. Opening writes nothing.
func TestEndsAreTold(t *testing.T) { logtest.BothWays(t, endsAreTold) }

func endsAreTold(t *testing.T) {
	seeds := uint64(60)
	if longTest() {
		seeds = 5000
	}
	ends := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		m := &endsModel{
			t: t, rng: rand.New(rand.NewPCG(seed, 15)), clock: logtest.NewClock(), mem: vfs.NewMem(),
			logged: map[string]endsEntry{}, pending: map[string]endsEntry{}, want: map[string][]string{}, got: map[string][]string{},
		}
		m.open()
		for n := range 150 {
			m.read() // reads write waiting cells to the log, too
			m.step(n)
			m.read()
			if n%7 == 0 {
				m.count()
			}
			for key, e := range m.logged {
				if _, is := m.pending[key]; is {
					continue
				}
				got, err := m.s.Get(nil, []byte(key))
				if there := err == nil; there == e.expired(m.now()) || there && string(got.Value) != e.value {
					t.Fatalf("seed %d, step %d: Get(%q) = %q, %v; want %v at %d", seed, n, key, got.Value, err, e, m.now())
				}
			}
		}
		m.clock.Advance(time.Second)
		m.flush()
		m.tell()
		m.read()
		delete(m.got, "*")
		for key, want := range m.want {
			if got := m.got[key]; !slices.Equal(got, want) {
				t.Fatalf("seed %d: the log says of %q\n\t%q\nand is to say\n\t%q", seed, key, got, want)
			}
			for _, line := range want {
				if line[len(key)+1] == 'E' {
					ends++
				}
			}
		}
		mustClose(t, m.s)
	}
	if t.Logf("%d ends", ends); ends < int(seeds)*5 {
		t.Error("this has tested little")
	}
}
