package redisapi

import (
	"maps"
	"slices"
)

// consumerWork is a consumer that gets entries, and what is to be written for that, with one write.
type consumerWork struct {
	*group
	name string
	consumerState
	now    int64
	isNew  bool
	sets   map[string][]byte
	clears map[string]bool
}

// seenEvery is how often it is noted that a consumer has found nothing, in milliseconds.
const seenEvery = 1000

// openConsumer is a consumer of the group, which is made if it is not there.
func (g *group) openConsumer(name string, now int64) (*consumerWork, error) {
	if err := fitNames(g.name, name); err != nil {
		return nil, err
	}
	w := &consumerWork{group: g, name: name, now: now, sets: map[string][]byte{}, clears: map[string]bool{}}
	state, ok, err := valueOf(g.s, consumerName(g.name, name), parseConsumer)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		w.isNew = true
		state = consumerState{now, now, -1}
	}
	w.consumerState = state
	return w, nil
}

// got notes that the consumer has got entries.
func (w *consumerWork) got() { w.active = w.now }

// write writes what the consumer has done.
func (w *consumerWork) write() error {
	if w.isNew || len(w.sets)+len(w.clears) > 0 || w.now-w.seen >= seenEvery {
		if !w.isNew {
			w.seen = max(w.now, w.made+1) // a consumer that was seen when it was made is new, which a watch tells
		}
		w.sets[consumerName(w.group.name, w.name)] = w.value()
	}
	if len(w.clears) > 0 {
		if _, err := w.s.of.Delete(slices.Collect(maps.Keys(w.clears))...); err != nil {
			return err
		}
	}
	if len(w.sets) == 0 {
		return nil
	}
	return w.s.of.SetAll(w.sets)
}

// value is consumerState.value, which groupState has, too.
func (w *consumerWork) value() []byte { return w.consumerState.value() }

// hold makes an entry one that the consumer has not acknowledged.
func (w *consumerWork) hold(p pendingEntry, before string) {
	p.consumer = w.name
	w.sets[pendingName(w.group.name, p.id)] = p.value()
	delivered := deliveredName(w.group.name, w.name, p.id)
	w.sets[delivered] = nil
	if before != "" && before != delivered {
		w.clears[before] = true
	}
}

// deliver gives the consumer the next entries.
func (w *consumerWork) deliver(count int64, noAck bool) ([]streamEntry, error) {
	g := w.group
	from, ok := g.last.next()
	if !ok || !g.last.less(g.s.head.last) {
		return nil, nil
	}
	list, err := g.s.entries(streamSpan{from, lastStreamID}, count, false)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	f := g.s.figures()
	held := g.s.of.Count(streamSpan{from, list[len(list)-1].id}.names(pendingOf(g.name))) > 0
	for _, e := range list {
		if g.read >= 0 && !f.holesBehind(e.id) {
			g.read++
		} else {
			g.read = f.place(e.id)
		}
		g.last = e.id
		if noAck {
			continue
		}
		w.got()
		before := ""
		if held { // it was delivered before the group was set back
			p, ok, err := g.pending(e.id)
			if err != nil {
				return nil, err
			}
			if ok {
				before = deliveredName(g.name, p.consumer, e.id)
			}
		}
		w.hold(pendingEntry{id: e.id, at: w.now, times: 1}, before)
	}
	w.sets[groupName(g.name)] = g.groupState.value()
	return list, nil
}

// again gives the consumer what it has got and not acknowledged. An entry that was deleted has no fields.
func (w *consumerWork) again(behind streamID, count int64) (list []streamEntry, err error) {
	from, ok := behind.next()
	if !ok {
		return nil, nil
	}
	err2 := w.eachPending(streamSpan{from, lastStreamID}, &w.name, func(p pendingEntry) bool {
		e := streamEntry{id: p.id}
		if e.fields, ok, err = w.s.load(p.id); err != nil {
			return false
		}
		if ok {
			p.at = w.now
			p.times++
			w.sets[pendingName(w.group.name, p.id)] = p.value()
		}
		list = append(list, e)
		return int64(len(list)) != count
	})
	if err == nil {
		err = err2
	}
	return list, err
}
