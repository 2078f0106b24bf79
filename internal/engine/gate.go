package engine

import (
	"github.com/copaldb/copal/internal/grace"
)

// A gate counts the goroutines inside: those that read the log without holding the lock of a key.
// Compaction waits until all that may still have an old address have left, without keeping others
// out. While the gate is excluded, newcomers wait.
type gate struct{ inner grace.Gate }

// pass is given to a goroutine that enters, and shown when it leaves.
type pass = grace.Pass

func (g *gate) enter() pass  { return g.inner.Enter() }
func (g *gate) leave(p pass) { g.inner.Leave(p) }
func (g *gate) grace()       { g.inner.Grace() }
func (g *gate) exclude()     { g.inner.Exclude() }
func (g *gate) admit()       { g.inner.Admit() }
