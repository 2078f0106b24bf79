package crashtest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/copaldb/copal/internal/vfs"
)

// Owner is the user of a log that is crashed. S is an open one, B the book that follows a script,
// and T a step of a script.
type Owner[S any, B Book, T Step] interface {
	Dir() string
	Open(fsys vfs.FS) (S, error)
	Close(s S) error // ends work under way, too
	Sync(s S) error

	// Step does a step of a script other than a death, and keeps the book.
	Step(fsys vfs.FS, s S, book B, st T) (S, error)

	// Reborn is called when the script goes on after a death: s shows the acknowledged writes.
	Reborn(s S, book B)

	// Judge reads all that a survivor shows, and finds it in the book, at least lo writes.
	Judge(s S, book B, lo int) (Shown[S, B], error)

	// After returns the steps of a survivor that is crashed in its recovery.
	After() []T
}

// Book follows a script: it counts its writes.
type Book interface{ Counted() *Count }

// Count is the progress of the writes of a script.
type Count struct {
	Started int // begun
	Acked   int // acknowledged: safe from the death of the process
	Durable int // acknowledged as synced, or covered by a sync: safe from a power cut
}

func (c *Count) Counted() *Count { return c }

// Step is a step of a script.
type Step interface {
	Death() Death
	String() string
}

// Death says whether a step is the death of the process.
type Death int

const (
	Lives Death = iota
	Dies
	DiesUnsynced // and the cache cannot write back its pages of the files
)

// Shown is the content of a survivor.
type Shown[S any, B Book] interface {
	// Compare compares it with the content of another survivor.
	Compare(s S) error

	// Write writes to the survivor, after which Compare expects that as well.
	Write(s S) error

	// Book is the book of a script that goes on from the state that was shown. Only durable entries
	// count as durable: after a power cut all of them, otherwise those that were before.
	Book(allDurable bool) B
}

// Plan says how thoroughly scripts are crashed.
type Plan struct {
	Rng    *rand.Rand
	Limit  int     // power cuts tried at one boundary, when there are too many to try all
	Sparse int     // one in so many boundaries is crashed at; 0 is all
	Again  int     // one in so many survivors is crashed in its recovery; 0 is none
	Nested int     // one in so many boundaries of that recovery is crashed at; 0 is as many as else
	Plant  vfs.Bug // for tests of the test
}

// Crasher runs scripts of an owner and crashes them. It stops at the first violation.
type Crasher[S any, B Book, T Step] struct {
	Plan
	Owner Owner[S, B, T]

	// Surviving, if not nil, is called before a survivor is opened, and its result when the
	// survivor is no longer used.
	Surviving func() (done func())

	States  int    // crash states opened so far, but for torn copies
	Torn    int    // kills within a copy to the ring, other than after its first half
	Failure string // the first violation

	trail []string // of steps, for messages
	lost  bool     // a write-back has failed in this script, unreported
}

// Violation notes a violation.
func (c *Crasher[S, B, T]) Violation(format string, args ...any) {
	if c.Failure == "" {
		c.Failure = fmt.Sprintf(format, args...) + "\n\tscript: " + strings.Join(c.trail, ", ")
	}
}

// Run runs a script on mem and crashes it at its boundaries.
func (c *Crasher[S, B, T]) Run(mem *vfs.Mem, book B, script []T) {
	mem.LosePagesForGood()
	c.lost = false
	c.run(mem, book, script, 0)
}

func (c *Crasher[S, B, T]) run(mem *vfs.Mem, book B, script []T, depth int) {
	fsys := c.watch(mem, book, depth)
	s, err := c.Owner.Open(fsys)
	if err != nil {
		c.Violation("the script's own Open: %v", err)
		return
	}
	for i, st := range script {
		if c.Failure != "" {
			break
		}
		if depth == 0 {
			c.trail = append(c.trail[:i], st.String())
		}
		if death := st.Death(); death != Lives {
			mem = mem.ProcessCrash()
			if death == DiesUnsynced {
				LoseUnsynced(mem, c.Owner.Dir())
				c.lost = true
			}
			fsys = c.watch(mem, book, depth)
			if s, err = c.Owner.Open(fsys); err == nil {
				c.Owner.Reborn(s, book)
			}
		} else {
			s, err = c.Owner.Step(fsys, s, book, st)
		}
		if err != nil {
			c.Violation("step %d, %v: %v", i, st, err)
			return
		}
		if c.Sparse > 0 && c.Failure == "" { // else every boundary of the step was crashed at
			c.kill(mem, book, fmt.Sprintf("process crash after step %d, %v", i, st), depth)
		}
	}
	if err := c.Owner.Close(s); err != nil {
		c.Violation("Close: %v", err)
	}
}

// watch crashes mem at its boundaries from now on.
func (c *Crasher[S, B, T]) watch(mem *vfs.Mem, book B, depth int) vfs.FS {
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) { c.Boundary(mem, book, op, phase, depth) })
	if c.Plant != 0 {
		return vfs.Inject(mem).Plant(c.Plant)
	}
	return mem
}

// Boundary crashes mem at a boundary, if it is one of those that are.
func (c *Crasher[S, B, T]) Boundary(mem *vfs.Mem, book B, op vfs.Op, phase vfs.Phase, depth int) {
	if c.Failure == "" && phase != vfs.Before && (c.Sparse == 0 || c.Rng.IntN(c.Sparse) == 0) {
		c.Crash(mem, book, fmt.Sprintf("%v, phase %v", op, phase), depth)
	}
	c.Tear(mem, book, op, depth)
}

// Crash opens every state that a crash at this instant may leave.
func (c *Crasher[S, B, T]) Crash(mem *vfs.Mem, book B, where string, depth int) {
	c.States++
	c.kill(mem, book, "process crash at "+where, depth)
	for image := range mem.PowerCuts(c.Limit, c.Rng) {
		if c.Failure != "" {
			return
		}
		c.States++
		c.survive(image, book, book.Counted().Durable, "power cut at "+where, depth, false)
	}
}

func (c *Crasher[S, B, T]) kill(mem *vfs.Mem, book B, where string, depth int) {
	c.survive(mem.ProcessCrash(), book, book.Counted().Acked, where, depth, true)
}

// Tear opens the states that a kill within a copy may leave. If only a few boundaries are crashed,
// some copies are torn nevertheless, each in about one way.
func (c *Crasher[S, B, T]) Tear(mem *vfs.Mem, book B, op vfs.Op, depth int) {
	odds := 10
	if Long() {
		odds = 5
	}
	for image := range mem.TornStores(c.Rng) {
		if c.Failure != "" {
			return
		}
		if c.Sparse > 0 && c.Rng.IntN(odds) > 0 {
			continue
		}
		c.Torn++
		c.survive(image, book, book.Counted().Acked, fmt.Sprintf("kill within %v", op), depth, true)
	}
}

// survive checks one crash state. After the death of the process alone, writes that were not
// durable still are not: such an image goes on recording.
func (c *Crasher[S, B, T]) survive(image *vfs.Mem, book B, lo int, where string, depth int, records bool) {
	var twin *vfs.Mem
	lost := c.lost // in the twin
	if depth == 0 && c.Again > 0 && c.Rng.IntN(c.odds(records)) == 0 {
		twin = c.twin(image, records)
		if records && c.Rng.IntN(2) == 0 {
			LoseUnsynced(twin, c.Owner.Dir())
			lost = true
		}
	}
	if c.Surviving != nil {
		defer c.Surviving()()
	}
	var full *vfs.Mem
	if records && !c.lost && c.Rng.IntN(8) == 0 {
		full = image.ProcessCrash()
	}
	s, err := c.Owner.Open(image)
	if err != nil {
		c.Violation("%s: Open: %v", where, err)
		return
	}
	shown, err := c.Owner.Judge(s, book, lo)
	if err != nil {
		c.Violation("%s: %v", where, err)
		return
	}
	if records && c.Rng.IntN(4) == 0 {
		c.cutSynced(image, s, shown, where)
	}
	if full != nil {
		c.syncFull(full, shown, where)
	}
	var next B
	if twin != nil {
		next = shown.Book(!records)
	}
	if c.Rng.IntN(4) == 0 {
		c.writeAndReopen(image, s, shown, where)
	} else if err := c.Owner.Close(s); err != nil {
		c.Violation("%s: Close: %v", where, err)
	}
	if twin != nil && c.Failure == "" {
		c.again(twin, next, lost, where, depth)
	}
}

func (c *Crasher[S, B, T]) odds(records bool) int {
	if records {
		return max(c.Again/10, 1) // there are far fewer of these
	}
	return c.Again
}

// twin returns an image to crash in its recovery. The pages that its cache cannot write back stay
// lost.
func (c *Crasher[S, B, T]) twin(image *vfs.Mem, records bool) *vfs.Mem {
	twin := image.ProcessCrash()
	if !records {
		twin.Record()
	}
	twin.LosePagesForGood()
	return twin
}

// again crashes a survivor in its recovery.
func (c *Crasher[S, B, T]) again(twin *vfs.Mem, book B, lost bool, where string, depth int) {
	sparse, before := c.Sparse, c.lost
	c.lost = lost
	if c.Nested > 0 {
		c.Sparse = c.Nested
	}
	defer func() { c.Sparse, c.lost = sparse, before }()
	n := book.Counted().Acked
	c.run(twin, book, c.Owner.After(), depth+1)
	if c.Failure != "" {
		c.Failure = fmt.Sprintf("%s (survivor %d) and then: %s", where, n, c.Failure)
	}
}

// cutSynced cuts the power when a survivor of the death of a process has been synced, and nothing
// has been written: its content is durable.
func (c *Crasher[S, B, T]) cutSynced(image *vfs.Mem, s S, shown Shown[S, B], where string) {
	if err := c.Owner.Sync(s); err != nil {
		c.Violation("%s: Sync: %v", where, err)
		return
	}
	for cut := range image.PowerCuts(4, c.Rng) {
		c.expect(cut, shown, where+", and a power cut when it has been synced")
	}
}

// syncFull is cutSynced on a disk that is full: it has no room for another file. If a sync is
// refused for that, a reopening shows the same content. It is not done after a write-back that has
// failed: a sync in place cannot notice that, as docs/durability.md says.
func (c *Crasher[S, B, T]) syncFull(image *vfs.Mem, shown Shown[S, B], where string) {
	where += ", on a full disk"
	s, err := c.Owner.Open(vfs.Inject(image, &vfs.Fault{Kinds: vfs.OpCreate, N: 1, Forever: true, Err: vfs.ErrNoSpace}))
	if err != nil {
		c.Violation("%s: Open: %v", where, err)
		return
	}
	err = c.Owner.Sync(s)
	if err == nil {
		for cut := range image.PowerCuts(4, c.Rng) {
			c.expect(cut, shown, where+", and a power cut when it has been synced")
		}
	} else if !vfs.IsNoSpace(err) {
		c.Violation("%s: Sync: %v", where, err)
	}
	c.expect(image.ProcessCrash(), shown, where)
}

// writeAndReopen writes to a survivor, closes or kills it, and opens it once more.
func (c *Crasher[S, B, T]) writeAndReopen(image *vfs.Mem, s S, shown Shown[S, B], where string) {
	if err := shown.Write(s); err != nil {
		c.Violation("%s: writing to the survivor: %v", where, err)
		return
	}
	if c.Rng.IntN(2) > 0 {
		image = image.ProcessCrash() // die
	} else if err := c.Owner.Close(s); err != nil {
		c.Violation("%s: closing the survivor: %v", where, err)
		return
	}
	c.expect(image, shown, where+", and writes of the survivor")
}

// expect opens an image, which must have exactly the given content.
func (c *Crasher[S, B, T]) expect(image *vfs.Mem, shown Shown[S, B], where string) {
	s, err := c.Owner.Open(image)
	if err != nil {
		c.Violation("%s: Open: %v", where, err)
		return
	}
	if err := shown.Compare(s); err != nil {
		c.Violation("%s: %v", where, err)
	}
	if err := c.Owner.Close(s); err != nil {
		c.Violation("%s: Close: %v", where, err)
	}
}
