package models

import (
	"errors"
	"strings"
	"time"

	"github.com/copaldb/copal"
)

// The transactions of TestInterplay: their view, under their own writes, and the changes that make
// them run again.

// txModel is a transaction under way.
type txModel[V any] struct {
	*interplay[V]
	tx    *copal.Tx
	m     *copal.Map[string, V]
	began map[string]thing // the entries when it began
	wrote map[string]thing
	read  map[string]bool // keys of which it has seen the entry from its beginning; true if it would otherwise have seen an expired one

	home   map[string]string // by key: which hash of those when it began it is; "" for none
	edited map[string]bool   // fields of those, as fieldOf has them, that it has written
	looked map[string]bool   // and those that it has seen unchanged
	counts map[string]bool   // those that it has counted
}

// fieldOf names a field of a hash. It is no key.
func fieldOf(key, field string) string { return key + " field " + field }

// transaction reads and writes, and while its function runs for the first time something else
// happens, and time passes.
func (x *interplay[V]) transaction() {
	var last *txModel[V] // the run that counts
	runs, disturbed, moved := 0, "", ""
	steps := 1 + x.rng.IntN(8)
	readOnly := x.rng.IntN(5) == 0
	do := x.db.Update
	if readOnly {
		do = x.db.View
	}
	end := errors.New("given up")
	giveUp := x.rng.IntN(8) == 0
	err := do(func(tx *copal.Tx) error {
		clear(x.earlier)
		runs++
		last = &txModel[V]{interplay: x, tx: tx, m: x.m.In(tx), began: map[string]thing{}, wrote: map[string]thing{}, read: map[string]bool{},
			home: map[string]string{}, edited: map[string]bool{}, looked: map[string]bool{}, counts: map[string]bool{}}
		for _, key := range x.keys {
			if last.began[key] = x.entry(key); last.began[key].hash != "" {
				last.home[key] = key
			}
		}
		disturb, pass := -1, -1
		if runs == 1 && x.rng.IntN(2) == 0 {
			disturb = x.rng.IntN(steps + 1)
		}
		if runs == 1 && x.rng.IntN(3) == 0 {
			pass = x.rng.IntN(steps + 1)
		}
		for i := range steps + 1 {
			if i == disturb {
				disturbed, moved = x.disturb()
			}
			if i == pass {
				x.clock.Advance(time.Duration(x.rng.IntN(8)) * time.Millisecond)
			}
			if i < steps {
				last.step(readOnly)
			}
		}
		if giveUp {
			return end
		}
		return nil
	})
	if giveUp {
		if err != end {
			x.t.Errorf("the transaction returns %v", err)
		}
		return
	}
	x.must(err)
	if len(last.wrote) > 0 {
		if _, read := last.read[disturbed]; read && runs == 1 {
			x.t.Errorf("the transaction has read %q, which has changed meanwhile, and commits", disturbed)
		}
		if last.looked[disturbed] && runs == 1 {
			x.t.Errorf("the transaction has looked at %q, which has changed meanwhile, and commits", disturbed)
		}
		if last.counts[moved] && runs == 1 {
			x.t.Errorf("the transaction has counted %q, of which %q has come or gone meanwhile, and commits", moved, disturbed)
		}
		for key, seen := range last.read {
			if e := last.began[key]; seen && x.alive(e) != e {
				x.t.Errorf("the transaction has read %q, %v, which has expired meanwhile, and commits", key, e)
			}
		}
	}
	if runs == 1 {
		last.merge(disturbed)
	}
	for key, e := range last.wrote {
		x.write(key, e, false)
	}
}

// merge takes into the hashes that the transaction has changed, or moved, the field that another
// has changed meanwhile: it has not looked at it, so that was no conflict.
func (x *txModel[V]) merge(disturbed string) {
	for key, e := range x.wrote {
		home := x.home[key]
		f, is := strings.CutPrefix(disturbed, fieldOf(home, ""))
		if e.hash == "" || home == "" || !is || x.edited[disturbed] {
			continue
		}
		all := fields(e.hash)
		if v, there := fields(x.interplay.entry(home).hash)[f]; there {
			all[f] = v
		} else {
			delete(all, f)
		}
		e.hash = joined(all)
		x.wrote[key] = e
	}
}

// entry returns the entry that the transaction sees.
func (x *txModel[V]) entry(key string) thing {
	if e, mine := x.wrote[key]; mine {
		return e
	}
	return x.began[key]
}

// look is entry of a key that is noted as read.
func (x *txModel[V]) look(key string) thing {
	if _, mine := x.wrote[key]; !mine {
		x.read[key] = true
	}
	return x.entry(key)
}

// step does one thing.
func (x *txModel[V]) step(readOnly bool) {
	key := x.key()
	x.last++
	n := x.rng.IntN(20)
	if readOnly {
		n %= 9
	}
	x.log("in the transaction: %d %q", n, key)
	switch {
	case n < 3:
		e := x.look(key)
		v, err := x.m.Load(key)
		if e.hash != "" {
			x.wantType("tx.Load", err)
		} else if x.found(err, e); err == nil && x.number(v) != e.number {
			x.t.Errorf("tx.Load(%q) = %v, want %v", key, v, e)
		}
	case n < 4:
		e := x.look(key)
		value, err := x.tx.Raw().Load([]byte("m:" + key))
		x.sameRaw("tx.Get", key, value, err, e)
	case n < 5:
		x.ttl(key)
	case n < 6:
		if x.rng.IntN(3) > 0 {
			return
		}
		want := 0
		for _, key := range x.keys {
			if x.look(key) != (thing{}) {
				want++
			}
		}
		if n := x.m.Len(); n != want {
			x.t.Errorf("tx Len = %d, want %d", n, want)
		}
	case n < 9:
		if x.rng.IntN(3) == 0 {
			x.walk(readOnly)
		}
	default:
		x.write(key)
	}
}

// ttl looks at a deadline.
func (x *txModel[V]) ttl(key string) {
	e := x.look(key)
	ttl, err := x.m.TTL(key)
	if e.hash != "" {
		ttl, err = x.db.Raw().Hash([]byte("m:" + key)).In(x.tx).TTL()
	}
	want := time.Duration(0)
	if e.deadline != 0 {
		want = max(time.Duration(e.deadline-x.now())*time.Millisecond, 1)
	}
	if x.found(err, e); err == nil && ttl != want {
		x.t.Errorf("tx.TTL(%q) = %v, want %v of %v", key, ttl, want, e)
	}
}

// walk goes through the map, and writes in the loop: its changes of entries that have not been
// yielded yet show.
func (x *txModel[V]) walk(readOnly bool) {
	stays, seen := map[string]bool{}, map[string]bool{} // those that have a value all the time, and those that were yielded
	for _, key := range x.keys {
		stays[key] = x.entry(key).number != 0
		if _, mine := x.wrote[key]; !mine {
			if _, before := x.read[key]; !before {
				x.read[key] = false // an entry that is not yielded is not read
			}
		}
	}
	for key, v := range x.m.All() {
		x.look(key)
		if e := x.entry(key); seen[key] || e.number == 0 || x.number(v) != e.number {
			x.t.Errorf("tx.All yields %q: %v, want %v; seen already: %v", key, v, e, seen[key])
		}
		seen[key] = true
		for !readOnly && x.rng.IntN(2) == 0 {
			x.last++
			x.write(x.key())
			for _, key := range x.keys {
				stays[key] = stays[key] && x.entry(key).number != 0
			}
		}
	}
	for key, always := range stays {
		if always && !seen[key] {
			x.t.Errorf("tx.All leaves out %q: %v", key, x.entry(key))
		}
	}
}

// write changes an entry.
func (x *txModel[V]) write(key string) {
	name := []byte("m:" + key)
	h := x.db.Raw().Hash(name).In(x.tx)
	ttl := time.Duration(1+x.rng.IntN(12)) * time.Millisecond
	defer func() {
		if x.entry(key).hash == "" {
			delete(x.home, key)
		}
	}()
	switch x.rng.IntN(10) {
	case 0, 1:
		x.must(x.m.Set(key, x.of(x.last)))
		x.wrote[key] = thing{number: x.last, deadline: x.after(x.interplay.ttl)}
	case 2:
		x.must(x.m.SetTTL(key, x.of(x.last), ttl))
		x.wrote[key] = thing{number: x.last, deadline: x.after(ttl)}
	case 3:
		x.must(x.tx.Raw().Set(name, x.bytes(x.last)))
		x.wrote[key] = thing{number: x.last}
	case 4:
		at := x.clock.Now().Add(ttl)
		x.must(x.tx.Raw().SetUntil(name, x.bytes(x.last), at))
		x.wrote[key] = thing{number: x.last, deadline: at.UnixMilli()}
	case 5:
		e := x.look(key)
		existed, err := x.m.Delete(key)
		x.must(err)
		if existed != (e != thing{}) {
			x.t.Errorf("tx.Delete(%q) = %v, want %v", key, existed, e)
		}
		if existed {
			x.wrote[key] = thing{}
		}
	case 6:
		e, to := x.look(key), x.key()
		err := h.Rename("m:" + to)
		if e.number != 0 {
			x.wantType("tx.Rename", err)
		} else if x.found(err, e); err == nil && to != key {
			x.wrote[key], x.wrote[to] = thing{}, e
			x.home[to] = x.home[key]
		}
	case 7:
		e := x.look(key)
		deadline, err := x.redateHash(h, ttl)
		if e.number != 0 {
			x.wantType("tx.Expire", err)
		} else if x.found(err, e); err == nil {
			e.deadline = deadline
			x.wrote[key] = e
		}
	default:
		e := x.look(key)
		now, field := x.hashChange(h, key, e)
		if home := x.home[key]; home != "" && field != "" && !x.edited[fieldOf(home, field)] {
			x.looked[fieldOf(home, field)] = true
		}
		if home := x.home[key]; home != "" && now.hash != "" {
			x.counts[home] = true
		}
		if now != e {
			x.wrote[key] = now
			for _, f := range changedFields(e, now) {
				x.edited[fieldOf(x.home[key], f)] = true
			}
		}
	}
}

// changedFields returns the fields in which two hashes differ.
func changedFields(a, b thing) (list []string) {
	was, now := fields(a.hash), fields(b.hash)
	for f := range was {
		if _, stays := now[f]; !stays || was[f] != now[f] {
			list = append(list, f)
		}
	}
	for f := range now {
		if _, known := was[f]; !known {
			list = append(list, f)
		}
	}
	return list
}

// disturb writes to a key by other means, from another goroutine. It returns the changed thing: the
// key, or a field of the hash under it, "" for nothing.
func (x *interplay[V]) disturb() (key, moved string) {
	key = x.key()
	what := x.rng.IntN(8)
	x.last++
	done := make(chan struct{})
	go func() {
		defer close(done)
		switch what {
		case 0:
			x.must(x.m.SetAsync(key, x.of(x.last)))
			x.write(key, thing{number: x.last, deadline: x.after(x.ttl)}, true)
		case 1:
			x.must(x.m.Set(key, x.of(x.last)))
			x.write(key, thing{number: x.last, deadline: x.after(x.ttl)}, false)
		case 2:
			was := x.entry(key)
			_, err := x.m.DeleteAsync(key)
			x.must(err)
			if x.write(key, thing{}, true); was == (thing{}) {
				key = ""
			}
		case 3:
			x.remember("SetInMemory", key, x.m.SetInMemory(key, x.of(x.last)))
			key = "" // which is no conflict
		case 4:
			e := x.shown(key)
			if e == (thing{}) || e.deadline == x.now()+100 {
				key = ""
				return
			}
			x.redate(key, x.now()+100, true, func() error { return x.m.With(copal.Async).Expire(key, 100*time.Millisecond) })
		default:
			e, now := x.changeHash(key)
			switch changed := changedFields(e, now); {
			case len(changed) == 0:
				key = ""
			case e.hash != "" && now.hash != "":
				if len(fields(e.hash)) != len(fields(now.hash)) {
					moved = key
				}
				key = fieldOf(key, changed[0])
			}
		}
	}()
	<-done
	x.log("disturbed %q by %d", key, what)
	return key, moved
}
