package engine

import (
	"github.com/copaldb/copal/internal/grace"
)

// A gate knows who is inside: whoever looks at the log without holding the lock of a key. It lets
// compaction wait until all those have left who may still hold an address from before, and keeps
// nobody out meanwhile. To exclude is another matter: then who comes waits.
type gate struct{ inner grace.Gate }

// pass is what one gets who enters, and shows who leaves.
type pass = grace.Pass

func (g *gate) enter() pass  { return g.inner.Enter() }
func (g *gate) leave(p pass) { g.inner.Leave(p) }
func (g *gate) grace()       { g.inner.Grace() }
func (g *gate) exclude()     { g.inner.Exclude() }
func (g *gate) admit()       { g.inner.Admit() }
