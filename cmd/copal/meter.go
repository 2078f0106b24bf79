package main

import (
	"sync/atomic"
	"time"
)

// meter shows how many entries a walk has come by, also while it sorts keys and comes by none. The nil meter
// shows nothing.
type meter struct {
	bar   *progress
	n     atomic.Int64
	total int64 // negative if it is not known
	stop  chan struct{}
	done  chan struct{}
}

// newMeter counts entries up to total, on standard error if that is a terminal. It must be ended.
func (a *app) newMeter(what, noun string, total int64) *meter {
	bar := a.newCount(what, noun)
	if bar == nil {
		return nil
	}
	m := &meter{bar: bar, total: total, stop: make(chan struct{}), done: make(chan struct{})}
	go m.run()
	return m
}

func (m *meter) run() {
	defer close(m.done)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-tick.C:
			if n := m.n.Load(); n > 0 {
				m.bar.show(n, m.total)
			} else {
				m.bar.wait("sorting keys", began)
			}
		case <-m.stop:
			m.bar.clear()
			return
		}
	}
}

// add counts another entry.
func (m *meter) add() {
	if m != nil {
		m.n.Add(1)
	}
}

// end takes the meter off the terminal. It may be called twice.
func (m *meter) end() {
	if m == nil || m.stop == nil {
		return
	}
	close(m.stop)
	<-m.done
	m.stop = nil
}

// newOutputMeter is for what prints a line for each entry: where a person reads the lines, the meter is to end
// before the first.
func (a *app) newOutputMeter(what, noun string, s selection, total int) (m *meter, endFirst bool) {
	most := int64(-1)
	if s.everything() {
		most = int64(total)
	}
	return a.newMeter(what, noun, most), isTerminal(a.stdout)
}
