package serial

import (
	"fmt"
	"slices"
	"strings"
)

// Op is an append, or a read when Append is 0.
type Op struct {
	Key    string
	Append int
	Read   []int // the list, with the transaction's own earlier numbers
}

// Txn is a transaction that has committed. Begin and End are moments on one clock; all are
// different.
type Txn struct {
	Name       string
	Begin, End int64
	Ops        []Op
}

type graph struct {
	txns    []Txn
	edges   [][]edge
	writers map[string]map[int]int // by key and number
	order   map[string][]int       // of each key, the longest list that was read
}

type edge struct {
	to  int
	why string
}

// Check returns nil if there is a serial order, and else an error that says why there is none.
func Check(history []Txn) error {
	g := &graph{txns: history, edges: make([][]edge, len(history)), writers: map[string]map[int]int{}, order: map[string][]int{}}
	for _, step := range []func() error{g.findWriters, g.findOrder, g.addReads, g.addWrites} {
		if err := step(); err != nil {
			return err
		}
	}
	g.addTime()
	return g.findCircle()
}

func (g *graph) findWriters() error {
	for i, t := range g.txns {
		for _, op := range t.Ops {
			if op.Append == 0 {
				continue
			}
			if g.writers[op.Key] == nil {
				g.writers[op.Key] = map[int]int{}
			}
			if _, twice := g.writers[op.Key][op.Append]; twice {
				return fmt.Errorf("%d is appended to %s twice", op.Append, op.Key)
			}
			g.writers[op.Key][op.Append] = i
		}
	}
	return nil
}

// findOrder finds the longest list of each key, of which all others must be the beginning.
func (g *graph) findOrder() error {
	for _, t := range g.txns {
		for _, op := range t.Ops {
			if op.Append == 0 && len(op.Read) > len(g.order[op.Key]) {
				g.order[op.Key] = op.Read
			}
		}
	}
	for _, t := range g.txns {
		for _, op := range t.Ops {
			if longest := g.order[op.Key]; op.Append == 0 && !slices.Equal(op.Read, longest[:len(op.Read)]) {
				return fmt.Errorf("%s reads %s as %v, and another as %v", t.Name, op.Key, op.Read, longest)
			}
		}
	}
	for key, list := range g.order {
		for _, n := range list {
			if _, ok := g.writers[key][n]; !ok {
				return fmt.Errorf("%d in %s was appended by nobody who has committed", n, key)
			}
		}
	}
	return nil
}

// addReads adds the edges from the first read of each key in a transaction, and checks that it sees
// its own appends.
func (g *graph) addReads() error {
	for i, t := range g.txns {
		own := map[string][]int{}
		first := map[string]int{} // length of the numbers of others
		for _, op := range t.Ops {
			if op.Append != 0 {
				own[op.Key] = append(own[op.Key], op.Append)
				continue
			}
			n := len(op.Read) - len(own[op.Key])
			if n < 0 || !slices.Equal(op.Read[n:], own[op.Key]) {
				return fmt.Errorf("%s reads %s as %v after it has appended %v", t.Name, op.Key, op.Read, own[op.Key])
			}
			if before, ok := first[op.Key]; ok && before != n {
				return fmt.Errorf("%s reads %s twice, and %v the second time: %v", t.Name, op.Key, op.Read, t.Ops)
			}
			if _, ok := first[op.Key]; !ok {
				first[op.Key] = n
				g.read(i, op.Key, n)
			}
		}
	}
	return nil
}

// read adds the edges of a read that came by n numbers.
func (g *graph) read(i int, key string, n int) {
	list := g.order[key]
	if n > 0 {
		g.edge(g.writers[key][list[n-1]], i, "wr "+key)
	}
	for ; n < len(list); n++ {
		if w := g.writers[key][list[n]]; w != i {
			g.edge(i, w, "rw "+key)
			return
		}
	}
	g.beyond(i, key) // unread numbers came later than all of it
}

// beyond adds edges to those whose appends to the key were never read.
func (g *graph) beyond(i int, key string) {
	read := map[int]bool{}
	for _, n := range g.order[key] {
		read[n] = true
	}
	for n, w := range g.writers[key] {
		if !read[n] && w != i {
			g.edge(i, w, "rw "+key)
		}
	}
}

func (g *graph) addWrites() error {
	for key, list := range g.order {
		for n := 1; n < len(list); n++ {
			g.edge(g.writers[key][list[n-1]], g.writers[key][list[n]], "ww "+key)
		}
	}
	return nil
}

// addTime adds the edges of real time: from each transaction to those that began after its end, but
// for those that follow from others.
func (g *graph) addTime() {
	for i := range g.txns {
		next := int64(-1) // the first end among those
		for j := range g.txns {
			if g.txns[j].Begin > g.txns[i].End && (next < 0 || g.txns[j].End < next) {
				next = g.txns[j].End
			}
		}
		for j := range g.txns {
			if b := g.txns[j].Begin; b > g.txns[i].End && b < next {
				g.edge(i, j, "time")
			}
		}
	}
}

func (g *graph) edge(from, to int, why string) {
	if from != to {
		g.edges[from] = append(g.edges[from], edge{to, why})
	}
}

// findCircle searches in depth, without recursion.
func (g *graph) findCircle() error {
	const (
		unseen = iota
		open
		closed
	)
	state := make([]int, len(g.txns))
	for start := range g.txns {
		path, next := []int{start}, make([]int, 1, 16)
		if state[start] != unseen {
			continue
		}
		state[start] = open
		for len(path) > 0 {
			at := path[len(path)-1]
			if next[len(next)-1] == len(g.edges[at]) {
				state[at] = closed
				path, next = path[:len(path)-1], next[:len(next)-1]
				continue
			}
			e := g.edges[at][next[len(next)-1]]
			next[len(next)-1]++
			switch state[e.to] {
			case open:
				return g.describe(append(path[slices.Index(path, e.to):], e.to))
			case unseen:
				state[e.to] = open
				path, next = append(path, e.to), append(next, 0)
			}
		}
	}
	return nil
}

func (g *graph) describe(circle []int) error {
	var b strings.Builder
	for i, at := range circle {
		t := g.txns[at]
		fmt.Fprintf(&b, "\n\t%s [%d, %d] %v", t.Name, t.Begin, t.End, t.Ops)
		if i+1 < len(circle) {
			at := slices.IndexFunc(g.edges[at], func(e edge) bool { return e.to == circle[i+1] })
			fmt.Fprintf(&b, "\n\t\t%s", g.edges[circle[i]][at].why)
		}
	}
	return fmt.Errorf("there is no serial order of:%s", b.String())
}
