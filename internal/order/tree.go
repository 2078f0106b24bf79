package order

import (
	"strings"
	"unsafe"
)

// Tree is a layer in memory: a B-tree of marks. Freeze returns a copy that does not change: the two share all
// nodes, and the tree copies those that it changes from then on. The zero Tree is empty. It is not safe for
// concurrent use; a copy of Freeze is.
type Tree struct {
	root    *node
	owner   *byte // of the nodes that may be changed; a place of its own
	len     int
	removed int // marks, since the tree was built
	bytes   int64
	copied  int64
	unsure  bool // a mark was made without knowledge of the layers below
}

// maxMarks is the most marks of a node.
const maxMarks = 63

type mark struct {
	key   string
	gone  bool
	fresh bool // the key exists, and was not in the layers below when it came
}

// adds returns the number of keys that the mark adds to those that the layers below show.
func (m *mark) adds() int64 { return adds(m.gone, m.fresh) }

func adds(gone, fresh bool) int64 {
	switch {
	case gone:
		return -1
	case fresh:
		return 1
	}
	return 0
}

type node struct {
	owner    *byte
	adds     int64 // by all marks from here down
	marks    []mark
	children []*node // one more than marks, or none
}

// Len returns the number of marks.
func (t *Tree) Len() int { return t.len }

// Bytes returns the approximate memory of the tree.
func (t *Tree) Bytes() int64 { return t.bytes }

// Copied returns the approximate bytes of nodes copied since the tree was made, because copies of Freeze have
// the old ones.
func (t *Tree) Copied() int64 { return t.copied }

// Freeze returns a copy that is independent of the tree.
func (t *Tree) Freeze() *Tree {
	t.owner = nil // the present nodes have no owner
	return &Tree{root: t.root, len: t.len, removed: t.removed, bytes: t.bytes, unsure: t.unsure}
}

// Set marks a key, of which it keeps a copy, without knowledge of the layers below.
func (t *Tree) Set(key []byte, gone bool) {
	m, _ := t.at(key)
	t.unsure = true
	t.change(m, gone, false)
}

// Came marks a new key. The caller knows that this layer and those below did not show it.
func (t *Tree) Came(key []byte) {
	m, added := t.at(key)
	t.change(m, false, added || m.fresh)
}

// Went marks a key that is gone. A key that came, and that the layers below do not have, leaves no mark.
func (t *Tree) Went(key []byte) {
	if m, _ := t.at(key); !m.fresh {
		t.change(m, true, false)
		return
	}
	t.remove(unsafe.String(unsafe.SliceData(key), len(key)))
}

// change changes a mark. Its nodes may be changed, since at has found it.
func (t *Tree) change(m *mark, gone, fresh bool) {
	more := adds(gone, fresh) - m.adds()
	m.gone, m.fresh = gone, fresh
	if more == 0 {
		return
	}
	for n := t.root; ; {
		n.adds += more
		i, found := n.find(m.key)
		if found {
			return
		}
		n = n.children[i]
	}
}

// Sure is Layer.Sure.
func (t *Tree) Sure() bool { return !t.unsure }

// Middle is Layer.Middle.
func (t *Tree) Middle(low, high []byte) ([]byte, error) {
	for n := t.root; n != nil && n.children != nil; {
		from, found := n.find(string(low))
		if found {
			from++
		}
		to, _ := n.find(string(high))
		if from < to {
			return []byte(n.marks[(from+to)/2].key), nil
		}
		n = n.children[from]
	}
	return nil, nil
}

// Before is Layer.Before.
func (t *Tree) Before(key []byte) (sum int64, err error) {
	k := unsafe.String(unsafe.SliceData(key), len(key))
	for n := t.root; n != nil; {
		i, found := n.find(k)
		for j := range i {
			sum += n.marks[j].adds()
			if n.children != nil {
				sum += n.children[j].adds
			}
		}
		switch {
		case n.children == nil:
			return sum, nil
		case found:
			return sum + n.children[i].adds, nil
		}
		n = n.children[i]
	}
	return sum, nil
}

// at returns the mark of a key, which is added if it is missing. It is valid until the tree changes.
func (t *Tree) at(key []byte) (m *mark, added bool) {
	if t.owner == nil {
		t.owner = new(byte)
	}
	if t.root == nil {
		t.root = &node{owner: t.owner}
	}
	t.root = t.own(t.root)
	if len(t.root.marks) == maxMarks {
		t.root = &node{owner: t.owner, adds: t.root.adds, children: []*node{t.root}}
		t.split(t.root, 0)
	}
	n, k := t.root, unsafe.String(unsafe.SliceData(key), len(key))
	for {
		i, found := n.find(k)
		switch {
		case found:
			return &n.marks[i], false
		case n.children == nil:
			n.marks = insert(n.marks, i, mark{key: strings.Clone(k)})
			t.len++
			t.bytes += int64(len(k)) + markBytes
			return &n.marks[i], true
		}
		child := t.own(n.children[i])
		n.children[i] = child
		if len(child.marks) == maxMarks {
			t.split(n, i)
			continue
		}
		n = child
	}
}

// markBytes is the approximate memory of a mark beside its key: nodes are some two thirds full.
const markBytes = 3 * int64(unsafe.Sizeof(mark{})) / 2

// own returns the node itself if it may be changed, or a copy.
func (t *Tree) own(n *node) *node {
	if n.owner == t.owner {
		return n
	}
	c := &node{owner: t.owner, adds: n.adds, marks: append(make([]mark, 0, maxMarks), n.marks...)}
	t.copied += int64(unsafe.Sizeof(*c)) + maxMarks*int64(unsafe.Sizeof(mark{}))
	if n.children != nil {
		c.children = append(make([]*node, 0, maxMarks+1), n.children...)
		t.copied += (maxMarks + 1) * int64(unsafe.Sizeof(c))
	}
	return c
}

// rebuildFrom is the number of removed marks from which on a tree may be built anew. It is a variable for
// tests.
var rebuildFrom = 1024

// remove removes the mark of a key that has one. Nodes may become empty, and are not joined: when more marks
// have been removed than there are, the tree is built anew.
func (t *Tree) remove(key string) {
	t.root = t.own(t.root)
	n := t.root
	i, found := n.find(key)
	for !found {
		n = t.child(n, i)
		i, found = n.find(key)
	}
	t.change(&n.marks[i], false, false)
	t.take(n, i)
	t.len--
	t.removed++
	t.bytes -= int64(len(key)) + markBytes
	if t.removed < max(rebuildFrom, t.len) {
		return
	}
	built := Tree{copied: t.copied, unsure: t.unsure}
	for c := t.Walk(nil, false).(*treeCursor); c.Next(); {
		m, _ := built.at(c.Key())
		built.change(m, c.at.gone, c.at.fresh)
	}
	*t = built
}

// child returns the i-th child of a node that may be changed, which may be changed then, too.
func (t *Tree) child(n *node, i int) *node {
	n.children[i] = t.own(n.children[i])
	return n.children[i]
}

// take removes the i-th mark of a node that may be changed. The last one below it replaces it.
func (t *Tree) take(n *node, i int) {
	if n.children != nil {
		if last, ok := t.takeLast(t.child(n, i)); ok {
			n.marks[i] = last
			return
		}
	}
	n.drop(i, i)
}

// drop removes the i-th mark and, if there are children, the j-th of them.
func (n *node) drop(i, j int) {
	copy(n.marks[i:], n.marks[i+1:])
	n.marks[len(n.marks)-1] = mark{}
	n.marks = n.marks[:len(n.marks)-1]
	if n.children != nil {
		copy(n.children[j:], n.children[j+1:])
		n.children[len(n.children)-1] = nil
		n.children = n.children[:len(n.children)-1]
	}
}

// takeLast removes the last mark of a node that may be changed, and of those below it. There may be none.
func (t *Tree) takeLast(n *node) (last mark, ok bool) {
	end := len(n.marks)
	if n.children != nil {
		if last, ok = t.takeLast(t.child(n, end)); ok {
			n.adds -= last.adds()
			return last, true
		}
	}
	if end == 0 {
		return mark{}, false
	}
	last = n.marks[end-1]
	n.adds -= last.adds()
	n.drop(end-1, end)
	return last, true
}

// split makes two nodes of the i-th child, which is full and may be changed.
func (t *Tree) split(parent *node, i int) {
	const half = maxMarks / 2
	left := parent.children[i]
	right := &node{owner: t.owner, marks: append(make([]mark, 0, maxMarks), left.marks[half+1:]...)}
	middle := left.marks[half]
	clear(left.marks[half:])
	left.marks = left.marks[:half]
	if left.children != nil {
		right.children = append(make([]*node, 0, maxMarks+1), left.children[half+1:]...)
		clear(left.children[half+1:])
		left.children = left.children[:half+1]
	}
	right.adds = right.sum()
	left.adds -= right.adds + middle.adds()
	parent.marks = insert(parent.marks, i, middle)
	parent.children = insert(parent.children, i+1, right)
}

// sum returns the value for adds of the node.
func (n *node) sum() (sum int64) {
	for i := range n.marks {
		sum += n.marks[i].adds()
	}
	for _, c := range n.children {
		sum += c.adds
	}
	return sum
}

func insert[T any](list []T, i int, v T) []T {
	list = append(list, v)
	copy(list[i+1:], list[i:])
	list[i] = v
	return list
}

// find returns the place of the first mark that is not before key.
func (n *node) find(key string) (i int, found bool) {
	low, high := 0, len(n.marks)
	for low < high {
		middle := int(uint(low+high) >> 1)
		switch c := strings.Compare(n.marks[middle].key, key); {
		case c == 0:
			return middle, true
		case c < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, false
}

// Walk is Layer.Walk. The tree must not be changed until the walk has ended; a frozen one never is.
func (t *Tree) Walk(from []byte, down bool) Cursor {
	c := &treeCursor{down: down}
	n := t.root
	for n != nil {
		i, found := 0, false
		switch {
		case from != nil:
			i, found = n.find(string(from))
		case down:
			i = len(n.marks)
		}
		// A step of the path is the place of the mark that comes after the subtree below it.
		switch {
		case found:
			c.path = append(c.path, step{n, i})
			return c
		case down:
			c.path = append(c.path, step{n, i - 1})
		default:
			c.path = append(c.path, step{n, i})
		}
		if n.children == nil {
			return c
		}
		n = n.children[i]
	}
	return c
}

// treeCursor walks through a tree. The path leads from the root to the node of the next mark; each step has the
// next mark of its node, after the subtree below it.
type treeCursor struct {
	path []step
	down bool
	at   *mark
}

type step struct {
	node *node
	i    int
}

func (c *treeCursor) Next() bool {
	c.at = nil
	for len(c.path) > 0 {
		s := &c.path[len(c.path)-1]
		if s.i < 0 || s.i >= len(s.node.marks) {
			c.path = c.path[:len(c.path)-1]
			continue
		}
		c.at = &s.node.marks[s.i]
		below := s.node
		i := s.i
		if c.down {
			s.i--
		} else {
			s.i++
			i++
		}
		for below.children != nil {
			below = below.children[i]
			if i = 0; c.down {
				i = len(below.marks)
			}
			first := i
			if c.down {
				first--
			}
			c.path = append(c.path, step{below, first})
		}
		return true
	}
	return false
}

func (c *treeCursor) Key() []byte {
	return unsafe.Slice(unsafe.StringData(c.at.key), len(c.at.key))
}

func (c *treeCursor) Gone() bool  { return c.at.gone }
func (c *treeCursor) Fresh() bool { return c.at.fresh }
func (c *treeCursor) Err() error  { return nil }
