package vfs

import (
	"bytes"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
)

// The crash model. A recording Mem keeps, in addition to the programs' view, the state of the disk:
// the durable names, the durable bytes of each file, and the list of changes since, in the order
// they were made. Sync moves a file's bytes from the list to the disk, SyncDir a directory's names,
// and nothing else ever does, which is as lazy as the contract allows. ProcessCrash drops the
// program and keeps the cache; PowerCuts drops the cache and tries every set of changes that might
// have reached the disk by chance (powercut.go). A write is taken by the kernel from front to back,
// so a process dies before, after or halfway through it. A store to a mapped file is a copy by the
// processor, which is free in its order: TornStores drops the program in the midst of one, with any
// part missing.
//
// A failed sync is the third way to lose: LoseUnsynced forgets the pending changes of a file while
// the cache still shows them, so that no later Sync saves them and a power cut brings it to light.
// After LosePagesForGood, later writes to the same pages of that file are lost as well, as on ext4
// in reserved space, which takes them for written while their extent on the disk is not. Only
// another file makes them durable.
//
// Left out: directories are durable when made, lock files when created, and a disk that lies about
// its flushes or garbles its content does not occur here.
type recorder struct {
	hook func(Op, Phase)

	mu      sync.Mutex       // guards the following fields and makes changes one at a time; taken before Mem.mu
	dirs    map[string]bool  // clean paths
	names   map[string]*node // durable, by clean path
	disk    map[*node]*durable
	pending []*change
	forGood bool
	gone    map[*node]map[int64]bool // pages whose writes are lost, if forGood
	stores  []*storing               // that are halfway through
}

// storing is a store of which the first half is done.
type storing struct {
	node  *node
	off   int64
	data  []byte
	old   []byte  // the bytes that the first half has replaced
	first *change // the first half
}

// durable is the content of one file on the disk.
type durable struct {
	content
	sum    uint64 // of the content, when summed
	summed bool
}

// change is one operation that the disk has not promised to keep.
type change struct {
	kind    Kind // OpCreate, OpLink, OpRename, OpRemove; OpWrite, OpTruncate
	node    *node
	name    string // removed, or renamed from
	newName string // created, linked, or renamed to
	off     int64  // of the write; OpTruncate: the size
	data    []byte // never modified
}

func (c *change) ofBytes() bool { return c.kind&(OpWrite|OpTruncate) != 0 }

func (c *change) end() int64 { return c.off + int64(len(c.data)) }

// dir is the directory whose SyncDir makes the change durable: for a rename from
// one to another the new one.
func (c *change) dir() string {
	if c.kind == OpRemove {
		return filepath.Dir(c.name)
	}
	return filepath.Dir(c.newName)
}

func (c *change) applyTo(d *content) {
	if c.kind == OpTruncate {
		d.truncate(c.off)
	} else {
		d.writeAt(c.data, c.off)
	}
}

// rename takes the file from wherever it is: an earlier rename may have been lost.
func (c *change) rename(names map[string]*node) {
	switch c.kind {
	case OpRemove:
		if names[c.name] == c.node {
			delete(names, c.name)
		}
		return
	case OpRename:
		if names[c.name] == c.node {
			delete(names, c.name)
			break
		}
		for name, n := range names {
			if n == c.node {
				delete(names, name)
			}
		}
	}
	names[c.newName] = c.node
}

// Phase is the time of a boundary relative to its operation.
type Phase int

const (
	Before Phase = iota
	Inside       // the first half of a write or store is done
	After
)

// Record starts recording; the present contents count as durable. It must come before the Mem is
// shared between goroutines.
func (m *Mem) Record() {
	r := &recorder{dirs: map[string]bool{}, names: map[string]*node{}, disk: map[*node]*durable{}}
	for dir, entries := range m.dirs {
		r.dirs[dir] = true
		for base, n := range entries {
			if n != nil {
				r.names[filepath.Join(dir, base)] = n
				r.disk[n] = &durable{content: n.data.share()}
			}
		}
	}
	m.rec = r
}

// LosePagesForGood lets a page of which a sync has failed stay lost, whatever is written to it and synced later. It
// must be called before the Mem is shared between goroutines.
func (m *Mem) LosePagesForGood() { m.rec.forGood = true }

// NewCrashMem returns an empty file system that records.
func NewCrashMem() *Mem {
	m := NewMem()
	m.Record()
	return m
}

// OnBoundary has hook called around every operation that changes a recording Mem
// or makes it durable, and in the middle of writes and stores. The hook holds no
// lock and may crash the Mem (ProcessCrash, PowerCuts) but not change it. In a
// single-threaded script After and Inside alone see every state. It must be set
// before the Mem is shared between goroutines.
func (m *Mem) OnBoundary(hook func(Op, Phase)) { m.rec.hook = hook }

// ProcessCrash returns the file system that a process started after the death of this one finds:
// everything written, synced or not, and no locks. A copy of a recording Mem records too and has
// the changes that are not yet durable; it has no hook.
func (m *Mem) ProcessCrash() *Mem { return m.crash(nil, nil) }

// TornStores yields file systems that a process finds after the death of this one within a store:
// ProcessCrash, but with other parts of the copy missing than the second half. There are such
// states in the boundary Inside an OpStore and nowhere else. rng decides where a hole is; nil is a
// fixed seed.
func (m *Mem) TornStores(rng *rand.Rand) iter.Seq[*Mem] {
	if rng == nil {
		rng = rand.New(rand.NewPCG(1, 2))
	}
	m.rec.mu.Lock()
	stores := slices.Clone(m.rec.stores)
	m.rec.mu.Unlock()
	return func(yield func(*Mem) bool) {
		for _, s := range stores {
			for _, there := range tears(len(s.data), rng) {
				if image := m.crash(s, there); image != nil && !yield(image) {
					return
				}
			}
		}
	}
}

// lateBytes is how much Go's copy on amd64 keeps in registers and stores last, of either end.
const lateBytes = 32

// tears are the parts of a copy of n bytes that have been made when it is interrupted, each
// a list of ranges.
func tears(n int, rng *rand.Rand) [][][2]int {
	late := min(lateBytes, n/2)
	hole := rng.IntN(n - late + 1)
	return [][][2]int{
		{{late, n}},                   // without the beginning: a copy of more than 256 bytes ends there
		{{0, n - late}},               // without the end
		{{n / 2, n}},                  // from back to front
		{{0, late}, {n - late, n}},    // both ends alone
		{{0, hole}, {hole + late, n}}, // a hole
	}
}

// crash is ProcessCrash. With a store that is halfway through, only the given parts of it have been
// made; nil if the first half is no longer to be taken back.
func (m *Mem) crash(s *storing, there [][2]int) *Mem {
	if m.rec != nil {
		m.rec.mu.Lock()
		defer m.rec.mu.Unlock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	twins := map[*node]*node{nil: nil}
	twin := func(n *node) *node {
		t, there := twins[n]
		if !there {
			n.mu.Lock()
			t = &node{id: n.id, data: n.data.share()}
			n.mu.Unlock()
			twins[n] = t
		}
		return t
	}
	out := &Mem{dirs: map[string]map[string]*node{}, locked: map[*node]bool{}, cacheID: m.cacheID}
	for dir, entries := range m.dirs {
		out.dirs[dir] = make(map[string]*node, len(entries))
		for base, n := range entries {
			out.dirs[dir][base] = twin(n)
		}
	}
	if m.rec != nil {
		out.rec = m.rec.cloneLocked(twin)
	}
	if s == nil {
		return out
	}
	at := slices.Index(m.rec.pending, s.first)
	if at < 0 {
		return nil // a sync has come in between
	}
	n := twin(s.node)
	n.data.writeAt(s.old, s.off)
	var parts []*change
	for _, part := range there {
		if from, to := part[0], part[1]; from < to {
			n.data.writeAt(s.data[from:to], s.off+int64(from))
			parts = append(parts, &change{kind: OpWrite, node: n, off: s.off + int64(from), data: s.data[from:to]})
		}
	}
	out.rec.pending = slices.Replace(out.rec.pending, at, at+1, parts...)
	return out
}

func (r *recorder) cloneLocked(twin func(*node) *node) *recorder {
	out := &recorder{
		dirs:  make(map[string]bool, len(r.dirs)),
		names: make(map[string]*node, len(r.names)),
		disk:  make(map[*node]*durable, len(r.disk)),
	}
	for dir := range r.dirs {
		out.dirs[dir] = true
	}
	for name, n := range r.names {
		out.names[name] = twin(n)
	}
	for n, d := range r.disk {
		out.disk[twin(n)] = &durable{content: d.share(), sum: d.sum, summed: d.summed}
	}
	for _, c := range r.pending {
		copied := *c
		copied.node = twin(c.node)
		out.pending = append(out.pending, &copied)
	}
	out.forGood = r.forGood
	for n, pages := range r.gone {
		if out.gone == nil {
			out.gone = map[*node]map[int64]bool{}
		}
		out.gone[twin(n)] = maps.Clone(pages)
	}
	return out
}

// step runs one operation that changes m, between its two boundaries.
func (m *Mem) step(op Op, apply func() error) error {
	r := m.rec
	if r == nil {
		return apply()
	}
	r.boundary(op, Before)
	err := func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		return apply()
	}()
	r.boundary(op, After)
	return err
}

func (r *recorder) boundary(op Op, p Phase) {
	if r.hook != nil {
		r.hook(op, p)
	}
}

// The methods from here to dropGone are called within step, hence under mu, and do
// nothing on a Mem that does not record.

func (r *recorder) note(c change) *change {
	if r == nil {
		return nil
	}
	r.pending = append(r.pending, &c)
	return &c
}

func (r *recorder) dirMade(path string) {
	if r != nil {
		r.dirs[path] = true
	}
}

func (r *recorder) dirRemoved(path string) {
	if r == nil {
		return
	}
	r.syncDir(path)
	delete(r.dirs, path)
}

func (r *recorder) lockFileMade(path string, n *node) {
	if r != nil {
		r.names[path] = n
		r.diskOf(n)
	}
}

func (r *recorder) diskOf(n *node) *durable {
	d := r.disk[n]
	if d == nil {
		d = &durable{}
		r.disk[n] = d
	}
	return d
}

// syncDir also drops an older pending name of a file that a rename has brought
// here from another directory, since a file has one name.
func (r *recorder) syncDir(path string) {
	if r == nil {
		return
	}
	moved := map[*node]bool{}
	for _, c := range r.pending {
		if !c.ofBytes() && c.dir() == path {
			c.rename(r.names)
			moved[c.node] = moved[c.node] || c.kind == OpRename
		}
	}
	synced := func(c *change) bool {
		return !c.ofBytes() && (c.dir() == path || moved[c.node] && c.kind == OpCreate)
	}
	r.pending = slices.DeleteFunc(r.pending, synced)
	r.prune()
}

// prune forgets the files that no crash can bring back.
func (r *recorder) prune() {
	live := r.reachable()
	r.pending = slices.DeleteFunc(r.pending, func(c *change) bool { return !live[c.node] })
	for n := range r.disk {
		if !live[n] {
			delete(r.disk, n)
		}
	}
}

// reachable are the files that have a name on the disk or may get one.
func (r *recorder) reachable() map[*node]bool {
	live := make(map[*node]bool, len(r.names))
	for _, n := range r.names {
		live[n] = true
	}
	for _, c := range r.pending {
		if !c.ofBytes() {
			live[c.node] = true
		}
	}
	return live
}

func (r *recorder) sync(n *node) { r.syncRange(n, 0, math.MaxInt64-pageSize) }

func (r *recorder) syncRange(n *node, from, to int64) {
	if r == nil {
		return
	}
	r.dropGone(n)
	d := r.diskOf(n)
	d.summed = false
	r.settle(n, from, to, func(c *change) { c.applyTo(&d.content) })
}

// settle takes out of the pending changes those to the pages that hold n's bytes [from, to), in
// order, and hands them to take. A write across the edge is split. Every truncate is taken, because
// the size belongs to the whole file; the writes that remain are cut off there, too.
func (r *recorder) settle(n *node, from, to int64, take func(*change)) {
	to = (to + pageSize - 1) &^ (pageSize - 1)
	var rest []*change
	for _, c := range r.pending {
		switch {
		case c.node != n || !c.ofBytes():
			rest = append(rest, c)
		case c.kind == OpTruncate:
			take(c)
			rest = clip(rest, n, c.off)
		default:
			if in := c.part(from, to); in != nil {
				take(in)
			}
			for _, out := range []*change{c.part(0, from), c.part(to, math.MaxInt64)} {
				if out != nil {
					rest = append(rest, out)
				}
			}
		}
	}
	r.pending = rest
}

// part returns the part of a write within [from, to): nil for none, c itself for all.
func (c *change) part(from, to int64) *change {
	from, to = max(from, c.off), min(to, c.end())
	switch {
	case from >= to:
		return nil
	case from == c.off && to == c.end():
		return c
	}
	p := *c
	p.off, p.data = from, c.data[from-c.off:to-c.off]
	return &p
}

func clip(list []*change, n *node, size int64) []*change {
	kept := list[:0]
	for _, c := range list {
		if c.node == n && c.kind == OpWrite {
			c = c.part(0, size)
		}
		if c != nil {
			kept = append(kept, c)
		}
	}
	return kept
}

// write is WriteAt and Store on a recording Mem. When someone watches, it stops
// halfway, without the lock, so that a crash may tear it; a sync may run there.
func (r *recorder) write(op Op, n *node, p []byte, off int64) {
	p = bytes.Clone(p)
	r.boundary(op, Before)
	r.mu.Lock()
	half := 0
	var first *change
	if r.hook != nil && len(p) > 1 {
		half = len(p) / 2
		s := &storing{node: n, off: off, data: p}
		if op.Kind == OpStore {
			s.old = n.read(half, off)
			r.stores = append(r.stores, s)
		}
		n.write(p[:half], off)
		first = r.note(change{kind: OpWrite, node: n, off: off, data: p[:half]})
		s.first = first
		r.mu.Unlock()
		r.hook(op, Inside)
		r.mu.Lock()
		r.stores = slices.DeleteFunc(r.stores, func(other *storing) bool { return other == s })
	}
	n.write(p[half:], off+int64(half))
	if first != nil && slices.Contains(r.pending, first) {
		first.data = p
	} else if len(p) > 0 {
		r.note(change{kind: OpWrite, node: n, off: off + int64(half), data: p[half:]})
	}
	r.mu.Unlock()
	r.boundary(op, After)
}

// LoseUnsynced has the effect of a failed Sync on a recorded file: the writes since the last good
// one are no longer waiting for the disk, and only the cache still shows them. A fault injector
// calls it in place of Sync.
func (f *memFile) LoseUnsynced() {
	if r := f.fs.rec; r != nil {
		r.lose(f.node, 0, math.MaxInt64-pageSize)
	}
}

// LoseUnsynced is the same for a region whose Sync fails.
func (r *memRegion) LoseUnsynced() {
	if rec := r.file.fs.rec; rec != nil {
		rec.lose(r.file.node, r.off, r.off+int64(len(r.buf)))
	}
}

func (r *recorder) lose(n *node, from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(n, from, to, func(c *change) {
		if c.kind != OpWrite || !r.forGood {
			return
		}
		if r.gone == nil {
			r.gone = map[*node]map[int64]bool{}
		}
		if r.gone[n] == nil {
			r.gone[n] = map[int64]bool{}
		}
		for p := c.off >> pageShift; p <= (c.end()-1)>>pageShift; p++ {
			r.gone[n][p] = true
		}
	})
}

// dropGone removes those of the pending changes of n that cannot reach the disk any more.
func (r *recorder) dropGone(n *node) {
	for p := range r.gone[n] {
		r.settle(n, p<<pageShift, (p+1)<<pageShift, func(c *change) {
			if c.kind != OpWrite {
				c.applyTo(&r.diskOf(n).content)
			}
		})
	}
}
