package cli

import (
	"sync/atomic"
	"time"
)

// meter shows the number of entries in a walk so far, also while the walk sorts keys. The nil meter
// shows nothing.
type meter struct {
	bar   *Progress
	n     atomic.Int64
	total int64 // negative if it is not known
	stop  chan struct{}
	done  chan struct{}
}

// NewMeter counts entries up to total, on standard error if that is a terminal. It must be ended.
func (a *App) NewMeter(what, noun string, total int64) *meter {
	bar := a.NewCount(what, noun)
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
				m.bar.Show(n, m.total)
			} else {
				m.bar.wait("sorting keys", began)
			}
		case <-m.stop:
			m.bar.Clear()
			return
		}
	}
}

// Add counts another entry.
func (m *meter) Add() {
	if m != nil {
		m.n.Add(1)
	}
}

// End takes the meter off the terminal. It may be called twice.
func (m *meter) End() {
	if m == nil || m.stop == nil {
		return
	}
	close(m.stop)
	<-m.done
	m.stop = nil
}

// NewOutputMeter is for commands that print a line for each entry. endFirst means that a person
// reads the lines, so that the meter must end before the first.
func (a *App) NewOutputMeter(what, noun string, s Selection, total int) (m *meter, endFirst bool) {
	most := int64(-1)
	if s.Everything() {
		most = int64(total)
	}
	return a.NewMeter(what, noun, most), IsTerminal(a.Stdout)
}
