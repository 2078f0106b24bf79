package vfs

import (
	"bytes"
	"hash/maphash"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// The states that a power cut may leave. Every change that is not durable is broken into choices,
// each of which the disk has or has not made by itself before the power failed, in any order:
//
//   - each 512-byte sector of a write; the last sector of the last write is torn
//     once more at some byte;
//   - the growth of a file, apart from the bytes it makes room for (zeros then);
//   - each truncate, creation, rename and removal.
//
// Up to ten choices are tried in all 2^n combinations. Beyond that the states are
// those a bug is most likely to hide in (nothing, everything, each prefix of the
// history, one change alone kept or lost), then seeded samples in which whole
// writes, pages or sectors share one fate.
//
// States are cheap because a file's part of a state depends on its own choices
// alone: it is built once for each combination of those, on top of the shared
// durable pages, and the images share it.

const (
	sectorSize = 512
	exhaustive = 10 // choices
)

// PowerCuts returns the states that a power cut at this instant may leave, no two
// alike, each as a file system of its own that does not record, holds no locks
// and has a new CacheID. There are at most 2^10 when all combinations are tried,
// else limit. rng decides the samples and where a sector is torn; nil is a fixed
// seed.
func (m *Mem) PowerCuts(limit int, rng *rand.Rand) iter.Seq[*Mem] {
	if rng == nil {
		rng = rand.New(rand.NewPCG(1, 2))
	}
	p := m.rec.plan(rng)
	return func(yield func(*Mem) bool) {
		if n := len(p.choices); n <= exhaustive {
			limit = 1 << n
		}
		seen := make(map[uint64]bool)
		for kept := range p.combinations(limit, rng) {
			s := p.state(kept)
			if seen[s.sum] {
				continue
			}
			seen[s.sum] = true
			if !yield(s.image(p)) || len(seen) >= limit {
				return
			}
		}
	}
}

// plan is all choices at one instant.
type plan struct {
	dirs    []string
	names   map[string]*node // durable
	files   map[*node]*cutFile
	changes []change
	choices []choice
	naming  []int // the choices that are about names
	byNames map[string]*listing
}

// cutFile is the durable part of a file and the changes that may be added to it.
type cutFile struct {
	id      string
	base    content
	sum     uint64
	choices []int
	states  map[string]*fileState
}

type fileState struct {
	data content
	sum  uint64
}

// listing is one outcome of the choices about names.
type listing []named

type named struct {
	dir, base string
	sum       uint64
	file      *cutFile
}

// choice is one thing that the disk has done or not.
type choice struct {
	change   int
	from, to int  // bytes of the change's data
	grow     bool // the new size only
	page     int  // choices of one change and page have the same number
	needs    int  // an earlier choice that this one implies, or -1
}

var hashSeed = maphash.MakeSeed()

func (r *recorder) plan(rng *rand.Rand) *plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.gone {
		r.dropGone(n)
	}
	p := &plan{names: maps.Clone(r.names), files: map[*node]*cutFile{}, byNames: map[string]*listing{}}
	for dir := range r.dirs {
		p.dirs = append(p.dirs, dir)
	}
	live := r.reachable()
	for n := range live {
		d := r.diskOf(n)
		if !d.summed {
			d.sum, d.summed = d.content.hash(), true
		}
		p.files[n] = &cutFile{id: n.name(), base: d.share(), sum: d.sum, states: map[string]*fileState{}}
	}
	for _, c := range r.pending {
		if live[c.node] {
			p.changes = append(p.changes, *c)
		}
	}
	p.choose(rng)
	return p
}

func (p *plan) choose(rng *rand.Rand) {
	last := lastWrite(p.changes)
	size := map[*node]int64{}
	for n, f := range p.files {
		size[n] = f.base.size
	}
	for i, c := range p.changes {
		switch c.kind {
		case OpWrite:
			p.chooseWrite(i, i == last, rng)
			if c.end() > size[c.node] {
				p.add(choice{change: i, grow: true})
				size[c.node] = c.end()
			}
		case OpTruncate:
			p.add(choice{change: i})
			size[c.node] = c.off
		default:
			p.add(choice{change: i, needs: p.vacated(i)})
		}
	}
}

func lastWrite(changes []change) int {
	for i, c := range slices.Backward(changes) {
		if c.kind == OpWrite {
			return i
		}
	}
	return -1
}

func (p *plan) chooseWrite(i int, torn bool, rng *rand.Rand) {
	c := p.changes[i]
	for from := 0; from < len(c.data); {
		to := min(len(c.data), from+sectorSize-int(c.off+int64(from))%sectorSize)
		if torn && to == len(c.data) && to-from > 1 {
			cut := from + 1 + rng.IntN(to-from-1)
			p.add(choice{change: i, from: from, to: cut})
			from = cut
		}
		p.add(choice{change: i, from: from, to: to})
		from = to
	}
}

// vacated finds the rename that freed the name which change i gives to a file.
// A disk that has the newcomer has that rename, else the file that was moved away
// would be gone, and no journal loses that.
func (p *plan) vacated(i int) int {
	for j := i - 1; j >= 0; j-- {
		if p.changes[j].kind == OpRename && p.changes[j].name == p.changes[i].newName {
			return slices.IndexFunc(p.choices, func(c choice) bool { return c.change == j })
		}
	}
	return -1
}

func (p *plan) add(c choice) {
	change := p.changes[c.change]
	if change.ofBytes() {
		c.needs = -1
		f := p.files[change.node]
		f.choices = append(f.choices, len(p.choices))
	} else {
		p.naming = append(p.naming, len(p.choices))
	}
	if n := len(p.choices); n > 0 {
		prev := p.choices[n-1]
		c.page = prev.page
		if prev.change != c.change || p.pageOf(prev) != p.pageOf(c) {
			c.page++
		}
	}
	p.choices = append(p.choices, c)
}

func (p *plan) pageOf(c choice) int64 { return (p.changes[c.change].off + int64(c.from)) >> pageShift }

// combinations yields which choices are kept. The slice is reused.
func (p *plan) combinations(limit int, rng *rand.Rand) iter.Seq[[]bool] {
	kept := make([]bool, len(p.choices))
	if len(p.choices) <= exhaustive {
		return func(yield func([]bool) bool) {
			for mask := range 1 << len(kept) {
				for i := range kept {
					kept[i] = mask>>i&1 == 1
				}
				if !yield(kept) {
					return
				}
			}
		}
	}
	return func(yield func([]bool) bool) {
		_ = p.telling(kept, limit-limit/4, yield) && p.random(kept, 4*limit, rng, yield)
	}
}

// grains are the units in which choices share a fate, from coarse to fine.
var grains = [...]func(i int, c choice) int{
	func(_ int, c choice) int { return c.change },
	func(_ int, c choice) int { return c.page },
	func(i int, _ choice) int { return i },
}

// telling yields nothing, everything, and then for each unit, newest first, the units up to it, all
// but it, and it alone.
func (p *plan) telling(kept []bool, budget int, yield func([]bool) bool) bool {
	try := func(keep func(i int) bool) bool {
		for i := range kept {
			kept[i] = keep(i)
		}
		budget--
		return yield(kept)
	}
	if !try(func(int) bool { return false }) || !try(func(int) bool { return true }) {
		return false
	}
	for _, grain := range grains {
		of := func(i int) int { return grain(i, p.choices[i]) }
		for unit := of(len(kept) - 1); unit >= 0 && budget > 0; unit-- {
			if !try(func(i int) bool { return of(i) <= unit }) ||
				!try(func(i int) bool { return of(i) != unit }) ||
				!try(func(i int) bool { return of(i) == unit }) {
				return false
			}
		}
	}
	return true
}

// random yields samples: half of them keep all that is older than some point,
// as a disk does that writes back in time.
func (p *plan) random(kept []bool, tries int, rng *rand.Rand, yield func([]bool) bool) bool {
	odds := [...]float64{0.125, 0.5, 0.875}
	for range tries {
		grain := grains[rng.IntN(len(grains))]
		keep := odds[rng.IntN(len(odds))]
		old := 0
		if rng.IntN(2) == 0 {
			old = rng.IntN(len(kept))
		}
		unit, coin := -1, false
		for i, c := range p.choices {
			if u := grain(i, c); u != unit {
				unit, coin = u, rng.Float64() < keep
			}
			kept[i] = coin || i < old
		}
		if !yield(kept) {
			return false
		}
	}
	return true
}

// state is one combination: the names and the contents of their files.
type state struct {
	list  *listing
	files []*fileState // as list
	sum   uint64
}

func (p *plan) state(kept []bool) state {
	for i, c := range slices.Backward(p.choices) {
		if kept[i] && c.needs >= 0 {
			kept[c.needs] = true
		}
	}
	s := state{list: p.listing(kept)}
	s.files = make([]*fileState, len(*s.list))
	for i, n := range *s.list {
		s.files[i] = p.fileState(n.file, kept)
		s.sum += mix(n.sum ^ mix(s.files[i].sum))
	}
	return s
}

func (p *plan) listing(kept []bool) *listing {
	var buf [64]byte
	key := keyOf(buf[:0], p.naming, kept)
	if l := p.byNames[string(key)]; l != nil {
		return l
	}
	names := maps.Clone(p.names)
	for _, i := range p.naming {
		if kept[i] {
			p.changes[p.choices[i].change].rename(names)
		}
	}
	l := make(listing, 0, len(names))
	for name, n := range names {
		dir, base := filepath.Split(name)
		l = append(l, named{filepath.Clean(dir), base, maphash.String(hashSeed, name), p.files[n]})
	}
	p.byNames[string(key)] = &l
	return &l
}

func (p *plan) fileState(f *cutFile, kept []bool) *fileState {
	var buf [256]byte
	key := keyOf(buf[:0], f.choices, kept)
	if s := f.states[string(key)]; s != nil {
		return s
	}
	s := &fileState{data: content{table: f.base.table, size: f.base.size, shared: true}}
	for _, i := range f.choices {
		if kept[i] {
			p.apply(p.choices[i], &s.data)
		}
	}
	s.sum = s.data.hashFrom(&f.base, f.sum)
	f.states[string(key)] = s
	return s
}

func (p *plan) apply(ch choice, d *content) {
	c := &p.changes[ch.change]
	switch {
	case c.kind == OpTruncate:
		d.truncate(c.off)
	case ch.grow:
		d.truncate(max(d.size, c.end()))
	default:
		d.writeAt(c.data[ch.from:ch.to], c.off+int64(ch.from))
	}
}

// keyOf packs the given choices into bits.
func keyOf(key []byte, choices []int, kept []bool) []byte {
	for n, i := range choices {
		if n%8 == 0 {
			key = append(key, 0)
		}
		if kept[i] {
			key[n/8] |= 1 << (n % 8)
		}
	}
	return key
}

func (s state) image(p *plan) *Mem {
	m := &Mem{
		dirs:    make(map[string]map[string]*node, len(p.dirs)),
		locked:  map[*node]bool{},
		cacheID: nextCacheID(),
	}
	for _, dir := range p.dirs {
		m.dirs[dir] = make(map[string]*node, len(*s.list))
	}
	for _, dir := range p.dirs {
		if dir != rootDir {
			parent, base := splitName(dir)
			m.dirs[parent][base] = nil
		}
	}
	nodes := make([]node, len(*s.list))
	named := make(map[*cutFile]*node, len(*s.list))
	for i, n := range *s.list {
		if named[n.file] == nil {
			f := s.files[i]
			nodes[i].id = n.file.id
			nodes[i].data = content{table: f.data.table, size: f.data.size, shared: true}
			named[n.file] = &nodes[i]
		}
		m.dirs[n.dir][n.base] = named[n.file]
	}
	return m
}

// hash is a sum over the pages, so that hashFrom need not look at all of them.
func (c *content) hash() uint64 { return c.hashFrom(&content{}, mix(0)) }

// hashFrom is hash of c, given the hash of a content with which c shares pages.
func (c *content) hashFrom(base *content, sum uint64) uint64 {
	sum += mix(uint64(c.size)) - mix(uint64(base.size))
	for i := range max(len(c.table), len(base.table)) {
		if now, old := c.pageAt(i), base.pageAt(i); now != old {
			sum += now.hash(i) - old.hash(i)
		}
	}
	return sum
}

func (c *content) pageAt(i int) *page {
	if i < len(c.table) {
		return c.table[i]
	}
	return nil
}

var zeroPage page

func (p *page) hash(i int) uint64 {
	if p == nil || bytes.Equal(p[:], zeroPage[:]) {
		return 0
	}
	return mix(maphash.Bytes(hashSeed, p[:]) + uint64(i)*0x9e3779b97f4a7c15)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
