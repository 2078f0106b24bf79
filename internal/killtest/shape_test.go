package killtest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
)

// shape is a way to write to a store other than by single values: in batches, transactions,
// collections and streams. Each writer of a shape owns its keys. It does one step after the other,
// each of which happens as a whole or not at all. With plan and apply the parent knows the work of
// a child.
type shape interface {
	// plan draws a step. It does not depend on the store, so parent and child draw the same.
	plan(d *dice) step
	// apply makes the step in the writer's content, and returns the result of the step.
	apply(c content, s *step) (existed bool)
	// open returns the hands that make the steps of a writer in a store.
	open(db *copal.DB, writer uint8) (hands, error)
}

// hands do the steps of one writer.
type hands interface {
	do(s *step) (existed bool, err error)
	look(c content) error // adds the content of the store
}

// step is one change of a writer.
type step struct {
	verb    string
	count   uint64 // of the steps of the writer, over all cycles
	fsync   bool
	again   int // how often it is repeated, which changes nothing more
	key, to int
	until   int64 // see thing
	changes []change
}

// change is a part of a step.
type change struct {
	place  int // of several
	key    int
	remove bool
	value  op
	until  int64
}

// repeat makes the step as often as it says. When the store is closed in between, it was done.
func repeat(s *step, do func() error) error {
	for i := range 1 + s.again {
		if err := do(); errors.Is(err, copal.ErrClosed) && i > 0 {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (s *step) String() string {
	bytes := 0
	for _, c := range s.changes {
		bytes += int(c.value.Size)
	}
	return fmt.Sprintf("%s of key %d (to %d) count %d.%d, %d changes of %d bytes", s.verb, s.key, s.to, s.count>>32, s.count&(1<<32-1), len(s.changes), bytes)
}

// content is the things that a writer owns, by name. The elements of a collection have its name, a
// slash and their own.
type content map[string]thing

// thing is the value of a name.
type thing struct {
	text  string
	until int64 // the deadline in Unix milliseconds, 0 for none, mortal for some that is far away
}

const mortal = -1

// top returns the number of the store's entries in the content.
func (c content) top() int {
	tops := map[string]bool{}
	for name := range c {
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	return len(tops)
}

// mayExpire reports whether something goes within the next hour.
func (c content) mayExpire() bool {
	for _, t := range c {
		if t.until > 0 && t.until < time.Now().Add(time.Hour).UnixMilli() {
			return true
		}
	}
	return false
}

// differs lists the names under which two contents are not the same, when the first was read
// between two moments.
func (found content) differs(want content, from, to int64) (names []string) {
	for name, w := range want {
		f, there := found[name]
		passed := w.until > 0 && w.until < from
		passing := w.until > 0 && w.until <= to+1
		if there && (f != w || passed) || !there && !passing {
			names = append(names, name)
		}
	}
	for name := range found {
		if _, wanted := want[name]; !wanted {
			names = append(names, name)
		}
	}
	return names
}

// book is the parent's knowledge of one writer of a shape.
type book struct {
	shape
	dice    *dice
	content content
	flying  *step // announced and not acknowledged
	doubted bool  // a bug was planted: the results of steps are not checked
}

// announced draws the step that a child has announced.
func (b *book) announced(f frame) error {
	s := b.plan(b.dice.next())
	if b.flying != nil || f.Op.Count != s.count {
		return fmt.Errorf("the test is wrong: step %d.%d was announced; the next is %v, in flight is %v", f.Op.Count>>32, f.Op.Count&(1<<32-1), &s, b.flying)
	}
	b.flying = &s
	return nil
}

// acked takes over that a step has happened.
func (b *book) acked(f frame) error {
	s := b.flying
	if s == nil || s.count != f.Op.Count {
		return fmt.Errorf("the test is wrong: %v was acknowledged while %v was in flight", f.Op.Count, s)
	}
	b.flying = nil
	if existed := b.apply(b.content, s); existed != f.Existed && !b.doubted {
		return fmt.Errorf("%v returned %t, which should be %t", s, f.Existed, existed)
	}
	return nil
}

// verify compares the things of a writer with the book, and takes over the step in flight if it
// finds it. It returns the violation.
func (b *book) verify(h hands, t *tally) (problem string) {
	from := time.Now().UnixMilli()
	found := content{}
	if err := h.look(found); err != nil {
		t.unsound++
		return fmt.Sprintf("unsound: reading: %v", err)
	}
	to := time.Now().UnixMilli()
	t.entries += len(found)
	flying := b.flying
	b.flying = nil
	not := found.differs(b.content, from, to)
	if len(not) == 0 {
		if flying != nil {
			t.dropped++
		}
		return ""
	}
	next := maps.Clone(b.content)
	if flying != nil {
		b.apply(next, flying)
		if len(found.differs(next, from, to)) == 0 {
			t.applied++
			b.content = next
			return ""
		}
	}
	return b.judge(found, next, not, flying, t)
}

// judge describes the violation in the found content: not are the names that differ from the
// acknowledged state.
func (b *book) judge(found, next content, not []string, flying *step, t *tally) string {
	kind := "wrong"
	for _, name := range not {
		if _, known := b.content[name]; known && found.say(name) != next.say(name) {
			kind = "lost"
		}
	}
	if kind == "lost" {
		t.lost++
	} else {
		t.wrong++
	}
	text := fmt.Sprintf("%s: %d names are not as they were acknowledged; in flight is %v", kind, len(not), flying)
	for _, name := range not[:min(len(not), 5)] {
		text += fmt.Sprintf("\n\t%s: found %s, acknowledged %s, with the step in flight %s", name, found.say(name), b.content.say(name), next.say(name))
	}
	return text
}

func (c content) say(name string) string {
	t, there := c[name]
	if !there {
		return "nothing"
	}
	return fmt.Sprintf("%.200q until %d", t.text, t.until)
}

// dice draw the steps of one writer in one cycle.
type dice struct {
	*rand.Rand
	writer uint8
	count  uint64
	lazy   bool
	begin  int64 // when the child was started, in Unix milliseconds
}

func newDice(o *order, writer uint8) *dice {
	return &dice{rand.New(rand.NewPCG(o.Seed, o.Cycle<<8|0x80|uint64(writer))), writer, o.Cycle << 32, o.Lazy, o.Begin}
}

// next makes the dice those of the next step.
func (d *dice) next() *dice {
	d.count++
	return d
}

// step returns a step with the common fields.
func (d *dice) step(verb string) step {
	return step{verb: verb, count: d.count, fsync: !d.lazy && d.IntN(10) == 0}
}

// one draws one of several verbs, each as often as its name occurs.
func (d *dice) one(verbs string) string {
	list := strings.Fields(verbs)
	return list[d.IntN(len(list))]
}

// upTo draws from 0 to most, each order of magnitude as likely as another.
func (d *dice) upTo(most int) int {
	return min(most, int(math.Exp2(d.Float64()*math.Log2(float64(most)+2)))-1)
}

// size draws the length of a value: half of them as upTo, half any up to most.
func (d *dice) size(most int) int {
	if d.IntN(2) == 0 {
		return d.upTo(most)
	}
	return d.IntN(most + 1)
}

// again draws how often a step of so many bytes is repeated: a child that writes the same again and
// again is killed while it copies, more often than not.
func (d *dice) again(bytes int) int {
	if d.IntN(2) == 0 {
		return 0
	}
	return min(20, repeatBytes/(bytes+1))
}

const (
	stepBytes   = 4 << 20  // of a step, at most
	repeatBytes = 16 << 20 // of a step and its repetitions
)

// value is one of this step. Which of them it is says key.
func (d *dice) value(key, size int) op {
	return op{slot: slot{Shelf: 0x80, Writer: d.writer, Key: uint16(key)}, Count: d.count, Size: uint32(size)}
}

// soon returns a deadline that comes within the next kills, far one that does not come.
func (d *dice) soon() int64 { return d.begin + 20 + d.Int64N(700) }
func (d *dice) far() int64  { return d.begin + 7_200_000 + d.Int64N(1_000_000) }

// text describes the value of o in a word, as a blob or a Note.
func (o op) text() string {
	if o.Size < blobHead {
		return fmt.Sprintf("%x", []byte(newBlob(o)))
	}
	return o.stampText()
}

func (o op) stampText() string {
	return fmt.Sprintf("w%d.%d count %d.%d, %d bytes", o.Writer, o.Key, o.Count>>32, o.Count&(1<<32-1), o.Size)
}

// blobText is text of the value that was found, if it is exactly one of those.
func blobText(b []byte) string {
	if len(b) < blobHead {
		return fmt.Sprintf("%x", b)
	}
	return foundText(blob(b), len(b))
}

func noteText(n Note) string { return foundText(n, len(n.Text)) }

func foundText(v value, size int) string {
	o, intact := v.stamp()
	o.Size = uint32(size)
	if !intact || !v.is(o) {
		return fmt.Sprint(v)
	}
	return o.stampText()
}

// TestShapes: without a death, the content and the results of a store are those that each shape
// expects.
func TestShapes(t *testing.T) {
	for _, m := range mixes {
		for w, sh := range m.writers {
			t.Run(fmt.Sprint(m.name, w), func(t *testing.T) {
				db, err := copal.OpenMemory()
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				h, err := sh.open(db, uint8(w))
				if err != nil {
					t.Fatal(err)
				}
				b := &book{shape: sh, content: content{}, dice: newDice(&order{Seed: 1, Cycle: 1, Begin: time.Now().Add(time.Hour).UnixMilli()}, uint8(w))}
				verbs := map[string]int{}
				for range m.acks {
					s := sh.plan(b.dice.next())
					s.again = 0
					verbs[s.verb]++
					existed, err := h.do(&s)
					if err != nil {
						t.Fatalf("%v: %v", &s, err)
					}
					if want := sh.apply(b.content, &s); existed != want {
						t.Fatalf("%v returned %t, want %t", &s, existed, want)
					}
				}
				if problem := b.verify(h, new(tally)); problem != "" {
					t.Fatal(problem)
				}
				if n := b.content.top(); db.Raw().Len() != n {
					t.Errorf("the store has %d entries, want %d", db.Raw().Len(), n)
				}
				t.Logf("%v, %d things", verbs, len(b.content))
			})
		}
	}
}

// fixedHands have a given content.
type fixedHands struct {
	hands
	content content
}

func (h fixedHands) look(c content) error {
	maps.Copy(c, h.content)
	return nil
}

// TestBook: the result of the checks for each possible content.
func TestBook(t *testing.T) {
	at := func(count uint64) op { return op{slot: slot{Shelf: 0x80, Key: 1}, Count: count, Size: 100} }
	text := func(count uint64) thing { return thing{text: at(count).text()} }
	until := func(t thing, after time.Duration) thing {
		t.until = time.Now().Add(after).UnixMilli()
		return t
	}
	past, future := until(text(2), -time.Minute), until(text(2), time.Minute)
	acked := content{"k1": text(2), "k2": text(2), "k4": past, "k5": future}
	flying := &step{verb: "batch", count: 3, changes: []change{{key: 1, value: at(3)}, {key: 2, remove: true}, {key: 3, value: at(3)}}}
	as := func(change func(c content)) content {
		c := maps.Clone(acked)
		delete(c, "k4")
		change(c)
		return c
	}
	tests := []struct {
		name   string
		flying *step
		found  content
		want   string // "": right
	}{
		{"as acknowledged", nil, as(func(c content) {}), ""},
		{"the step in flight did not happen", flying, as(func(c content) {}), ""},
		{"the step in flight happened", flying, as(func(c content) { c["k1"], c["k3"] = text(3), text(3); delete(c, "k2") }), ""},
		{"a part of it happened", flying, as(func(c content) { c["k1"] = text(3) }), "wrong"},
		{"its deletions happened", flying, as(func(c content) { delete(c, "k2") }), "wrong"},
		{"all but one happened", flying, as(func(c content) { c["k3"] = text(3); delete(c, "k2") }), "wrong"},
		{"it was never announced", nil, as(func(c content) { c["k1"], c["k3"] = text(3), text(3); delete(c, "k2") }), "lost"},
		{"older", nil, as(func(c content) { c["k1"] = text(1) }), "lost"},
		{"older, a step in flight", flying, as(func(c content) { c["k1"] = text(1) }), "lost"},
		{"gone", nil, as(func(c content) { delete(c, "k1") }), "lost"},
		{"gone, a step in flight", flying, as(func(c content) { delete(c, "k1") }), "lost"},
		{"nobody wrote it", nil, as(func(c content) { c["k9"] = text(2) }), "wrong"},
		{"it has expired, and is there", nil, as(func(c content) { c["k4"] = past }), "wrong"},
		{"its deadline has not come", nil, as(func(c content) { delete(c, "k5") }), "lost"},
		{"another deadline", nil, as(func(c content) { c["k5"] = until(text(2), time.Hour) }), "lost"},
		{"no deadline", nil, as(func(c content) { c["k5"] = text(2) }), "lost"},
		{"a deadline from nowhere", nil, as(func(c content) { c["k1"] = future }), "lost"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := &book{shape: smallBatches, content: maps.Clone(acked), flying: test.flying}
			var counted tally
			found := b.verify(fixedHands{content: test.found}, &counted)
			if !strings.HasPrefix(found, test.want) || (found == "") != (test.want == "") || counted.failed() != (found != "") {
				t.Errorf("got %q, want %q; counted %v", found, test.want, counted)
			}
			if again := b.verify(fixedHands{content: test.found}, &counted); found == "" && again != "" {
				t.Errorf("what was right is %q the second time", again)
			}
		})
	}
	if text := anyText([]byte("{}")); text != "7b7d" {
		t.Errorf("a blob is taken for a Note: %q", text)
	}
	for _, b := range [][]byte{newBlob(at(7)), []byte(newNote(at(7)).Text)} {
		if b[50] ^= 1; blobText(b) == at(7).text() {
			t.Error("a flipped bit does not show")
		}
	}
}
