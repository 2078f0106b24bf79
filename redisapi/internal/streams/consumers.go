package streams

import (
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/redisstream"
)

// consumerWork is a consumer that gets entries, and the elements to write for that, with one write.
type consumerWork struct {
	*group
	name string
	redisstream.Consumer
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
	state, ok, err := valueOf(g.s, redisstream.ConsumerName(g.name, name), redisstream.ParseConsumer)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		w.isNew = true
		state = redisstream.Consumer{Made: now, Seen: now, Active: -1}
	}
	w.Consumer = state
	return w, nil
}

// got notes that the consumer has got entries.
func (w *consumerWork) got() { w.Active = w.now }

// write writes the changes of the consumer.
func (w *consumerWork) write() error {
	if w.isNew || len(w.sets)+len(w.clears) > 0 || w.now-w.Seen >= seenEvery {
		if !w.isNew {
			w.Seen = max(w.now, w.Made+1) // a consumer that was seen when it was made is new, which a watch reports
		}
		w.sets[redisstream.ConsumerName(w.group.name, w.name)] = w.Consumer.Value()
		if w.isNew {
			w.s.c.Event("xgroup-createconsumer", w.s.key)
		}
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

// hold makes an entry one that the consumer has not acknowledged.
func (w *consumerWork) hold(p redisstream.Pending, before string) {
	p.Consumer = w.name
	w.sets[redisstream.PendingName(w.group.name, p.ID)] = p.Value()
	delivered := redisstream.DeliveredName(w.group.name, w.name, p.ID)
	w.sets[delivered] = nil
	if before != "" && before != delivered {
		w.clears[before] = true
	}
}

// deliver gives the consumer the next entries.
func (w *consumerWork) deliver(count int64, noAck bool) ([]streamEntry, error) {
	g := w.group
	from, ok := g.Last.Next()
	if !ok || !g.Last.Less(g.s.head.Last) {
		return nil, nil
	}
	list, err := g.s.entries(streamSpan{from, redisstream.LastID}, count, false)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	f := g.s.figures()
	held := g.s.of.Count(streamSpan{from, list[len(list)-1].id}.names(redisstream.PendingOf(g.name))) > 0
	for _, e := range list {
		if g.Read >= 0 && !f.HolesBehind(e.id) {
			g.Read++
		} else {
			g.Read = f.Place(e.id)
		}
		g.Last = e.id
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
				before = redisstream.DeliveredName(g.name, p.Consumer, e.id)
			}
		}
		w.hold(redisstream.Pending{ID: e.id, At: w.now, Times: 1}, before)
	}
	w.sets[redisstream.GroupName(g.name)] = g.Group.Value()
	return list, nil
}

// again gives the consumer the entries that it has got and not acknowledged. An entry that was deleted has no fields.
func (w *consumerWork) again(behind redisstream.ID, count int64) (list []streamEntry, err error) {
	from, ok := behind.Next()
	if !ok {
		return nil, nil
	}
	err2 := w.eachPending(streamSpan{from, redisstream.LastID}, &w.name, func(p redisstream.Pending) bool {
		e := streamEntry{id: p.ID}
		if e.fields, ok, err = w.s.load(p.ID); err != nil {
			return false
		}
		if ok {
			p.At = w.now
			p.Times++
			w.sets[redisstream.PendingName(w.group.name, p.ID)] = p.Value()
		}
		list = append(list, e)
		return int64(len(list)) != count
	})
	if err == nil {
		err = err2
	}
	return list, err
}
