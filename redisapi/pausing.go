package redisapi

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"
)

// CLIENT PAUSE holds the commands of clients back, those that write or all, for a time. A command that is held has not
// begun: its client waits as one that waits for a key does, and goes on when the pause is over. It is not carried out
// for a client that goes away meanwhile, nor when the server shuts down.
//
// A client that writes holds a lock that it shares with others that do. The pause takes it alone, so no write is under
// way when CLIENT PAUSE has been answered. Clients that wait for a key are served by others, with waiting.mu held, and
// the pause takes that, too: those whose command a pause holds are served when it is over.

// pausing has the pause of a server.
type pausing struct {
	writing sync.RWMutex          // shared by clients that write, alone while a pause begins; taken before waiting.mu
	now     atomic.Pointer[pause] // nil for none; changed with waiting.mu held
}

type pause struct {
	all  bool // not only commands that write
	end  time.Time
	over chan struct{} // closed when it is over, or another is in its place
}

// holds reports whether the pause holds a command. writes is true for a command that writes.
func (p *pause) holds(writes bool) bool { return p != nil && (p.all || writes) }

// cloned returns copies of arguments whose buffer may be reused.
func cloned(args [][]byte) (list [][]byte) {
	for _, a := range args {
		list = append(list, bytes.Clone(a))
	}
	return list
}
