package engine

import "sync"

// reports passes errors that no call can return to the user's handler, in their order and from a
// goroutine that holds no lock, so the handler may use the store. The goroutine runs while there
// are errors to pass on.
type reports struct {
	deliver func(error)

	mu      sync.Mutex
	queue   []error
	running bool
	idle    *sync.Cond // of mu: the goroutine has ended
}

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, err)
	if !r.running {
		r.running = true
		go r.run()
	}
}

func (r *reports) run() {
	r.mu.Lock()
	defer func() { // also when the handler ends its goroutine
		if r.running = len(r.queue) > 0; r.running {
			go r.run()
		}
		r.idle.Broadcast()
		r.mu.Unlock()
	}()
	for len(r.queue) > 0 {
		err := r.queue[0]
		r.queue = r.queue[1:]
		r.pass(err)
	}
}

// pass calls the handler without the lock.
func (r *reports) pass(err error) {
	r.mu.Unlock()
	defer r.mu.Lock()
	r.deliver(err)
}

// wait returns when all errors have been passed on.
func (r *reports) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.running {
		r.idle.Wait()
	}
}
