package engine

import (
	"github.com/copaldb/copal/internal/grace"
)

// A gate knows the goroutines inside: those that look at the log without holding the lock of a key.
// Compaction waits until all those have left that may still hold an address from before, and keeps
// nothing out meanwhile. To exclude is another matter: newcomers wait then.
type gate struct{ inner grace.Gate }

// pass is given to a goroutine that enters, and shown when it leaves.
type pass = grace.Pass

func (g *gate) enter() pass  { return g.inner.Enter() }
func (g *gate) leave(p pass) { g.inner.Leave(p) }
func (g *gate) grace()       { g.inner.Grace() }
func (g *gate) exclude()     { g.inner.Exclude() }
func (g *gate) admit()       { g.inner.Admit() }
