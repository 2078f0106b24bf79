package jitter

import (
	"math/rand/v2"
	"runtime"
)

// Here lets others run, now and then: mostly for a moment, seldom for so long that they get far. It
// does not sleep, because in a test whose time does not move while a goroutine waits for a lock, it
// would never wake up.
func Here() {
	switch n := rand.Uint32N(1 << 12); {
	case n < 2:
		for range rand.Uint32N(2000) {
			runtime.Gosched()
		}
	case n < 128:
		runtime.Gosched()
	}
}
