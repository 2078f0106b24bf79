package study

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/bench/rivals"
)

var engines = []rivals.Engine{rivals.Bbolt, rivals.CopalOrdered, rivals.Badger, rivals.Bunt}

func open(t *testing.T, path string, h Header) *Journal {
	t.Helper()
	j, err := OpenJournal(path, h, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// study runs a study of a few records, and returns the results and the cells left out.
func study(t *testing.T, o Options) (results []Result, leftOut map[Cell]error) {
	t.Helper()
	leftOut = map[Cell]error{}
	o.Dir = t.TempDir()
	o.LeftOut = func(c Cell, why error) { leftOut[c] = why }
	j := open(t, filepath.Join(t.TempDir(), "results.csv"), Header{Format: Format})
	if err := Run(t.Context(), o, j); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("the study leaves %v, %v", left, err)
	}
	return j.Results, leftOut
}

// Every strategy keeps users in every engine, and each step of each cell has figures. The tables
// compare all fields of the records that they read. Without COPAL_LONG=1, one of badger and buntdb
// is left out by chance, and with -short both.
func TestEveryTable(t *testing.T) {
	few := []string{"binary", "fields", "nested", "hash", "map-binary"} // each kind of table
	leaveOut := engines[2+rand.IntN(2)].Name
	for _, e := range engines {
		if e.Name != "bbolt" && e.Name != "copal" {
			if testing.Short() || e.Name == leaveOut && os.Getenv("COPAL_LONG") != "1" {
				continue
			}
			few = few[:2]
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			one := []rivals.Engine{e}
			results, leftOut := study(t, Options{Sizes: []int{31}, Reps: 1, Engines: one, Durable: []bool{false}})
			synced, alsoLeftOut := study(t, Options{Sizes: []int{2}, Reps: 1, Engines: one, Strategies: few, Durable: []bool{true}})
			results = append(results, synced...)
			maps.Copy(leftOut, alsoLeftOut)
			for c, why := range leftOut {
				t.Errorf("%v is left out: %v", c, why)
			}
			found := map[Cell][]Step{}
			for _, r := range results {
				found[r.Cell] = append(found[r.Cell], r.Step)
				if r.Nanoseconds <= 0 || r.FileBytes <= 0 || r.LogicalBytes < 100 && r.Records > 2 {
					t.Errorf("%v, %s: %+v", r.Cell, r.Step, r)
				}
			}
			for c, steps := range found {
				want := Steps
				if c.Durable {
					want = []Step{Insert, Update}
				}
				if !slices.Equal(steps, want) {
					t.Errorf("%v has %v", c, steps)
				}
			}
			for _, s := range strategies {
				c := Cell{Engine: e.Name, Strategy: s.name, Records: 31}
				if has := len(found[c]) > 0; has != (s.only == nil || slices.Contains(s.only, e.Name)) {
					t.Errorf("%v: %v", c, found[c])
				}
			}
		})
	}
}

// lossy damages the users that it decodes.
type lossy struct {
	encoding
	damage func(u *User)
}

func (l lossy) Decode(src []byte, record any) error {
	err := l.encoding.Decode(src, record)
	l.damage(record.(*User))
	return err
}

// A strategy that changes any field of any record is left out, with the reason.
func TestLossIsNoticed(t *testing.T) {
	before := strategies
	defer func() { strategies = before }()
	for name, damage := range map[string]func(u *User){
		"whole":    func(*User) {},
		"fraction": func(u *User) { u.Height = float32(int(u.Height)) },
		"last":     func(u *User) { u.Description = u.Description[:len(u.Description)-1] },
		"flag":     func(u *User) { u.IsActive = true },
		"number":   func(u *User) { u.ID = 7 },
	} {
		encodings["lossy"] = func(s subject) (encoding, error) { return lossy{newBinary(s), damage}, nil }
		strategies = []strategy{onePair("lossy", "")}
		_, leftOut := study(t, Options{Sizes: []int{20}, Reps: 1, Engines: engines[:1], Durable: []bool{false}})
		for _, why := range leftOut {
			if !errors.As(why, new(*LossError)) {
				t.Errorf("%s: %v", name, why)
			}
		}
		if noticed := len(leftOut) > 0; noticed != (name != "whole") {
			t.Errorf("%s is noticed: %v", name, noticed)
		}
	}
	delete(encodings, "lossy")
}

// forgetful is a table that loses a part of its records.
type forgetful struct {
	table
	lose string
}

func (f forgetful) update(number uint64, round int) error {
	if f.lose == "update" {
		return nil
	}
	return f.table.update(number, round)
}

func (f forgetful) sum() (float64, int, error) {
	total, n, err := f.table.sum()
	if f.lose == "sum" {
		total += 0.01
	}
	return total, n, err
}

func (f forgetful) readMany(number uint64, n int, each func(any) error) error {
	if f.lose == "many" && number > 0 {
		number++
	}
	return f.table.readMany(number, n, each)
}

func (f forgetful) insert(next func() (uint64, any), together bool) error {
	return f.table.insert(func() (uint64, any) {
		number, record := next()
		if f.lose == "insert" && number == 3 {
			return next()
		}
		return number, record
	}, together)
}

func TestForgetfulTablesAreNoticed(t *testing.T) {
	before := strategies
	defer func() { strategies = before }()
	for _, lose := range []string{"nothing", "update", "sum", "many", "insert"} {
		s := onePair("binary", "")
		whole := s.open
		s.open = func(e rivals.Engine, dir string, durable bool, s subject) (table, error) {
			t, err := whole(e, dir, durable, s)
			return forgetful{t, lose}, err
		}
		strategies = []strategy{s}
		j := open(t, filepath.Join(t.TempDir(), "r"), Header{Format: Format})
		left := 0
		err := Run(t.Context(), Options{Dir: t.TempDir(), Sizes: []int{20}, Reps: 1, Engines: engines[:1], Durable: []bool{false},
			LeftOut: func(Cell, error) { left++ }}, j)
		if noticed := err != nil || left > 0; noticed != (lose != "nothing") {
			t.Errorf("%s is lost: %v, %d left out", lose, err, left)
		}
	}
}

// A study that is interrupted anywhere goes on, and has each repetition once in the end.
func TestGoesOn(t *testing.T) {
	o := Options{Sizes: []int{2, 5}, Reps: 2, Engines: engines[:1], Strategies: []string{"binary", "json"}, Durable: []bool{false}, Dir: t.TempDir()}
	whole := 2 * 2 * 2 * 2 // sizes, repetitions, strategies, ways to insert
	path := filepath.Join(t.TempDir(), "results.csv")
	for stop := range whole {
		j := open(t, path, Header{Format: Format, Machine: "m"})
		if got := len(j.Results); got != stop*len(Steps) {
			t.Fatalf("%d results after %d repetitions", got, stop)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		enough, begun := errors.New("enough"), 0
		o.Progress = func(p Progress) {
			if p.Total != whole {
				t.Fatalf("%d of %d", p.Done, p.Total)
			}
			if begun++; begun == 2 {
				cancel(enough)
			}
		}
		err := Run(ctx, o, j)
		cancel(nil)
		if want := stop+1 < whole; errors.Is(err, enough) != want {
			t.Fatalf("%d: %v", stop, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		tear(t, path)
	}
	j := open(t, path, Header{Format: Format, Machine: "m"})
	seen := map[string]int{}
	for _, r := range j.Results {
		seen[fmt.Sprint(r.Cell, r.Repetition, r.Step)]++
	}
	if len(seen) != whole*len(Steps) || len(j.Results) != len(seen) {
		t.Errorf("%d different results of %d, expected are %d", len(seen), len(j.Results), whole*len(Steps))
	}
	if err := Run(t.Context(), o, j); err != nil {
		t.Error(err)
	}
	if len(j.Results) != len(seen) {
		t.Error("a study that is done measures again")
	}
}

// tear leaves a part of a repetition after the whole ones, cut off within a line.
func tear(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	last := strings.Join(lines[max(len(lines)-6, 2):], "")
	last = strings.ReplaceAll(last, ",bulk,", ",single,")
	text = append(text, last[:len(last)*2/3]...)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestJournalIsOfOneStudy(t *testing.T) {
	h := Header{Format: Format, Subject: "users", Machine: "m", Modules: map[string]string{"go": "1", "bbolt": "2"}, Begun: "today"}
	path := filepath.Join(t.TempDir(), "results.csv")
	open(t, path, h).Close()
	for name, change := range map[string]func(h *Header){
		"":        func(h *Header) { h.Begun = "tomorrow" },
		"subject": func(h *Header) { h.Subject = "events" },
		"machine": func(h *Header) { h.Machine = "n" },
		"go":      func(h *Header) { h.Modules = map[string]string{"go": "2"} },
	} {
		other := h
		change(&other)
		j, err := OpenJournal(path, other, false)
		if errors.Is(err, ErrOther) != (name != "") || name == "" && err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			j.Close()
		}
	}
	for _, text := range []string{"x", marker + "{\n", marker + `{"format":2}` + "\n", marker + `{"format":1}` + "\nengine\n"} {
		if _, err := ReadJournal(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// A journal says the same after it was written and read.
func TestJournalKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.csv")
	j := open(t, path, Header{Format: Format, Subject: "s"})
	var want []Result
	for _, step := range Steps {
		want = append(want, Result{Cell: Cell{"bbolt", "json", true, false, 1000}, Repetition: 3, Step: step,
			Nanoseconds: 1234.5, Allocations: 0.125, AllocBytes: 77.5, FileBytes: 300.5, LogicalBytes: 200})
	}
	if err := j.Add(want); err != nil {
		t.Fatal(err)
	}
	j.Close()
	if got := open(t, path, Header{Format: Format, Subject: "s"}); !slices.Equal(got.Results, want) || !got.Has(want[0].Cell, 3) || got.Has(want[0].Cell, 2) {
		t.Errorf("%+v", got.Results)
	}
}

func TestLimit(t *testing.T) {
	o := Options{Sizes: []int{2, 1000}, Reps: 1, Engines: engines[:1], Strategies: []string{"binary"}, Durable: []bool{false}, Limit: time.Nanosecond}
	results, leftOut := study(t, o)
	if len(results) > 0 || len(leftOut) != 4 {
		t.Errorf("%d results, %d left out", len(results), len(leftOut))
	}
	for _, why := range leftOut {
		if !errors.Is(why, ErrLimit) {
			t.Error(why)
		}
	}
	r := &run{Options: Options{}, cost: map[Cell]cost{}}
	c := Cell{Engine: "e", Records: 100}
	r.learn(c, time.Second, time.Minute)
	c.Records = 1000
	if got := r.expected(c); got != time.Minute+10*time.Second {
		t.Errorf("ten times as many take %v", got)
	}
}

func TestRefusals(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "r"), Header{Format: Format})
	for name, o := range map[string]Options{
		"strategy": {Sizes: []int{2}, Reps: 1, Engines: engines, Strategies: []string{"stone"}, Durable: []bool{false}},
		"none":     {Sizes: []int{2}, Reps: 1, Engines: engines[2:3], Strategies: []string{"nested"}, Durable: []bool{false}},
	} {
		if err := Run(t.Context(), o, j); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The two ways to write the strategy binary write the same bytes, and all encodings find the field.
func TestEncodings(t *testing.T) {
	by := map[string]encoding{}
	for name, make := range encodings {
		e, err := make(users{})
		if err != nil {
			t.Fatal(err)
		}
		by[name] = e
	}
	by["concatenated"] = concatenated{users{}}
	long := strings.Repeat("long ", 60) // lengths of two bytes
	for number := range uint64(200) {
		var u User
		makeUser(number, &u)
		if number%7 == 0 {
			u = User{ID: -1, Age: -5, Height: float32(math.Inf(1)), Balance: math.SmallestNonzeroFloat64, Description: long, CreatedAt: math.MinInt64}
		}
		for name, e := range by {
			if strings.HasPrefix(name, "json") && number%7 == 0 {
				continue // JSON has no infinity
			}
			text, err := e.Append(nil, &u)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var got User
			if err := e.Decode(text, &got); err != nil || got != u {
				t.Fatalf("%s: %+v, %v; want %+v", name, got, err, u)
			}
			if sum, err := e.Number(text, new(User)); err != nil || sum != u.Balance {
				t.Fatalf("%s: %v, %v; want %v", name, sum, err, u.Balance)
			}
			if by[name] == by["binary"] {
				other, _ := by["concatenated"].Append(nil, &u)
				if !bytes.Equal(text, other) {
					t.Fatalf("%x\n%x", text, other)
				}
			}
		}
	}
}

// Bytes that are no record are an error, and no more.
func FuzzDecode(f *testing.F) {
	var u User
	makeUser(1, &u)
	for _, e := range []encoding{userBinary{}, named{users{}}} {
		text, _ := e.Append(nil, &u)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, e := range []encoding{userBinary{}, concatenated{users{}}, named{users{}}} {
			var u User
			err := e.Decode(src, &u)
			e.Number(src, &u)
			if _, ok := e.(named); ok || err != nil {
				continue
			}
			text, _ := e.Append(nil, &u)
			var again User
			if err := e.Decode(text, &again); err != nil || fmt.Sprint(again) != fmt.Sprint(u) {
				t.Errorf("%+v comes back as %+v, %v", u, again, err)
			}
		}
	})
}

// Users are the same on every machine.
func TestUsers(t *testing.T) {
	var u, again User
	makeUser(4711, &u)
	makeUser(4711, &again)
	want := User{ID: 4711, Username: "user_4711", Email: "user_4711@example.com", FirstName: "First_4711", LastName: "Last_4711", Age: u.Age,
		Height: u.Height, Weight: u.Weight, Balance: u.Balance, IsActive: u.IsActive, CreatedAt: u.CreatedAt, UpdatedAt: u.UpdatedAt,
		LoginCount: u.LoginCount, Score: u.Score, Description: u.Description}
	if u != again || u != want {
		t.Errorf("%+v\n%+v", u, again)
	}
	for number := range uint64(1000) {
		makeUser(number, &u)
		if u.Age < 18 || u.Age > 77 || u.Height < 150 || u.Height >= 200 || u.Weight < 50 || u.Weight >= 150 || u.Balance < 0 || u.Balance >= 10_000 ||
			u.Score < 0 || u.Score >= 100 || u.LoginCount < 0 || u.LoginCount > 999 || len(u.Description) < 80 || len(u.Description) > 120 {
			t.Fatalf("%+v", u)
		}
	}
}

func TestTable(t *testing.T) {
	cell := func(engine, strategy string, together bool, n int) Cell {
		return Cell{engine, strategy, together, false, n}
	}
	var results []Result
	for _, x := range []struct {
		c    Cell
		step Step
		ns   []float64
	}{
		{cell("bbolt", "json", true, 100), Read, []float64{3000, 1000, 2000}},
		{cell("copal", "map-json", true, 100), Read, []float64{500, 700}},
		{cell("bbolt", "json", true, 1000), Read, []float64{4000}},
		{cell("bbolt", "json", false, 100), Insert, []float64{40_000}},
	} {
		for i, ns := range x.ns {
			results = append(results, Result{Cell: x.c, Step: x.step, Repetition: i, Nanoseconds: ns, FileBytes: 200})
		}
	}
	figures := Figures(results)
	table := TableOf(figures, 100, false)
	if len(table.Rows) != 2 || table.Rows[0].Engine != "bbolt" || table.Rows[0].Values[2] != 2000 || table.Rows[1].Values[2] != 600 || table.Rows[0].Values[0] != 40_000 {
		t.Fatalf("%+v", table.Rows)
	}
	if table.Best(2, "") != 1 || table.Best(2, "bbolt") != 0 || table.Best(0, "copal") != -1 || table.Best(5, "") != -1 {
		t.Error("another row is the best")
	}
	if n := Largest(figures, false); n != 1000 {
		t.Errorf("the largest is %d", n)
	}
	if advice := strings.Join(table.Advice(), "\n"); !strings.Contains(advice, "copal map-json 0.60 µs; bbolt json 2.00 µs, 3.3 times that") {
		t.Error(advice)
	}
	var text, page bytes.Buffer
	if err := WriteText(&text, figures); err != nil || !strings.Contains(text.String(), "1 k records, no transaction is synced") {
		t.Error(text.String(), err)
	}
	if err := WriteHTML(&page, Header{Machine: "<m>"}, figures); err != nil || strings.Contains(page.String(), "<m>") || strings.Contains(page.String(), "NaN") {
		t.Error(err)
	}
	names, charts := Charts(figures, false)
	if len(names) != 2 || len(charts) != 2 || len(charts[1].Series) != 2 || len(charts[1].Series[0].Points) != 2 {
		t.Errorf("%v", names)
	}
}

// calls records the calls of a study to a table.
type calls struct {
	table
	log *[]string
}

func (c calls) note(format string, args ...any) {
	*c.log = append(*c.log, fmt.Sprintf(format, args...))
}

func (c calls) insert(next func() (uint64, any), together bool) error {
	n := 0
	err := c.table.insert(func() (uint64, any) {
		number, record := next()
		if record != nil {
			n++
		}
		return number, record
	}, together)
	c.note("insert %d %v", n, together)
	return err
}

func (c calls) read(number uint64, record any) error {
	c.note("read %d", number)
	return c.table.read(number, record)
}

func (c calls) readMany(number uint64, n int, f func(any) error) error {
	c.note("many %d %d", number, n)
	return c.table.readMany(number, n, f)
}

func (c calls) sum() (float64, int, error) {
	c.note("sum")
	return c.table.sum()
}

func (c calls) update(number uint64, round int) error {
	c.note("update %d %d", number, round)
	return c.table.update(number, round)
}

// A study reads as described on its page: half of the records at random, in another order in each
// repetition, a third from the middle, all of them once before.
func TestCalls(t *testing.T) {
	before := strategies
	defer func() { strategies = before }()
	const n = 60
	orders := map[string]bool{}
	for _, together := range []bool{false, true} {
		for rep := range 2 {
			var log []string
			s := onePair("binary", "")
			whole := s.open
			s.open = func(e rivals.Engine, dir string, durable bool, s subject) (table, error) {
				t, err := whole(e, dir, durable, s)
				return calls{t, &log}, err
			}
			strategies = []strategy{s}
			r := &run{Options: Options{Dir: t.TempDir(), Engines: engines[:1]}, subject: users{}}
			results, err := r.measure(t.Context(), Cell{Engine: "bbolt", Strategy: "binary", Records: n, Together: together}, rep)
			if err != nil {
				t.Fatal(err)
			}
			if results[0].FileBytes*n < 8192 || results[0].LogicalBytes < 180 || results[0].LogicalBytes > 260 {
				t.Errorf("%+v", results[0])
			}
			want := []string{"insert 1 false", fmt.Sprintf("insert %d %v", n, together), "insert 1 false"}
			for i := range n {
				want = append(want, fmt.Sprintf("read %d", i))
			}
			if !slices.Equal(log[:len(want)], want) {
				t.Fatalf("it begins with %q", log[:len(want)])
			}
			rest := log[len(want)+n:] // after the reading of all of them
			reads, rest := rest[:n/2], rest[n/2:]
			if !slices.Equal(rest[:2], []string{"many 30 20", "sum"}) {
				t.Fatalf("%q", rest[:2])
			}
			updates := rest[2 : 2+n/2]
			for what, list := range map[string][]string{"read": reads, "update": updates} {
				sorted := slices.Sorted(slices.Values(list))
				if len(slices.Compact(sorted)) != n/2 || !strings.HasPrefix(sorted[0], what) {
					t.Errorf("%s: %q", what, list)
				}
				orders[strings.Join(list, " ")] = true
			}
		}
	}
	if len(orders) != 4 { // reads and updates of two repetitions, the same for both ways to insert
		t.Errorf("%d orders", len(orders))
	}
}

// A file of something else is never overwritten; one of results is, when it is asked for, or was
// cut off in its head.
func TestJournalAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.csv")
	for text, keeps := range map[string]bool{"": false, "my,own\n1,2\n": true, marker + "{": false, marker[:5]: false, marker + "{}\n": false} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(path, Header{Format: Format}, true)
		if (err != nil) != keeps {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil {
			j.Close()
		}
		if got, err := os.ReadFile(path); err != nil || keeps != (string(got) == text) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	path = filepath.Join(t.TempDir(), "results.csv")
	j := open(t, path, Header{Format: Format})
	if err := j.Add([]Result{{Cell: Cell{Engine: "e"}, Step: Update}}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	j, err := OpenJournal(path, Header{Format: Format, Machine: "another"}, true)
	if err != nil || len(j.Results) > 0 {
		t.Error(err)
	}
	j.Close()
	if got := open(t, path, Header{Format: Format, Machine: "another"}); len(got.Results) > 0 {
		t.Error("results of before are there")
	}
}

func lines(text string) (list [][]byte) {
	for line := range strings.Lines(text) {
		list = append(list, []byte(strings.TrimSpace(line)))
	}
	return list
}

// Records of the user's own are kept by all strategies that can keep them.
func TestOwn(t *testing.T) {
	const events = `{"id":-1,"name":"a","price":1.5,"tags":["x","y"],"at":{"lat":1,"lon":-2.5},"on":true,"note":null,"any":1,"größe":3}
{"id":9007199254740993,"name":"bä\u0000","price":2,"tags":[],"at":{"lat":1,"lon":3},"on":false,"note":"n","any":"x","größe":4}
{"id":300,"name":"","price":0,"tags":["z"],"at":{"lat":0,"lon":0},"on":true,"any":{"k":[1]},"größe":-5}`
	o, err := NewOwn("events", lines(events), "")
	if err != nil {
		t.Fatal(err)
	}
	results, leftOut := study(t, Options{Sizes: []int{8}, Reps: 1, Engines: engines[:2], Durable: []bool{false}, Own: o})
	for c, why := range leftOut {
		if strings.Contains(c.Strategy, "gob") && errors.As(why, new(*LossError)) { // gob takes an empty list for none
			continue
		}
		t.Errorf("%v: %v", c, why)
	}
	if len(results) == 0 {
		t.Error("no results")
	}
}

func TestGuess(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"a":2}` + "\n" + `{}`:     `struct { A *int64 "json:\"a,omitzero\"" }`,
		`{"a":1}` + "\n" + `{"a":2}`:      `struct { A int64 "json:\"a\"" }`,
		`{"a":1}` + "\n" + `{"a":2.5}`:    `struct { A float64 "json:\"a\"" }`,
		`{"a":1}` + "\n" + `{"a":null}`:   `struct { A *int64 "json:\"a\"" }`,
		`{"a":1}` + "\n" + `{"b":true}`:   `struct { A *int64 "json:\"a,omitzero\""; B *bool "json:\"b,omitzero\"" }`,
		`{"a":1}` + "\n" + `{"a":"x"}`:    `struct { A study.Text "json:\"a\"" }`,
		`{"a":[1,2]}`:                     `struct { A []int64 "json:\"a\"" }`,
		`{"a":[]}`:                        `struct { A []study.Text "json:\"a\"" }`,
		`{"a":{"b":[{"c":"d"}]}}`:         `struct { A struct { B []struct { C string "json:\"c\"" } "json:\"b\"" } "json:\"a\"" }`,
		`{"a b":1,"a_b":2,"1":3,"A b":4}`: `struct { A_b int64 "json:\"a b\""; A_b_ int64 "json:\"a_b\""; F_1 int64 "json:\"1\""; A_b__ int64 "json:\"A b\"" }`,
		`{"a":18446744073709551616}`:      `struct { A study.Text "json:\"a\"" }`,
		`{"a":1e999}`:                     `struct { A study.Text "json:\"a\"" }`,
	} {
		got, err := guessType(lines(text))
		if err != nil || got.String() != want {
			t.Errorf("%s\nis  %v, %v\nnot %s", text, got, err, want)
		}
	}
	// JSON that a struct cannot keep is refused, and not changed.
	for _, text := range []string{"", "{}", "1\n1", `{"a"` + "\n{}", "[]\n[]", "{}\n{}", `{"a,b":1}` + "\n{}", `{"😀":1}` + "\n" + `{"😀":2}`,
		`{"a":1}{}` + "\n" + `{"a":1}`, `{"a":1,"A":2}` + "\n" + `{"A":3}`} {
		if o, err := NewOwn("x", lines(text), ""); err == nil && text != `{"a":1,"A":2}`+"\n"+`{"A":3}` {
			t.Errorf("%q is of type %v", text, o.Type())
		}
	}
}

// A map's schema has facts that JSON lacks.
func TestOwnSchema(t *testing.T) {
	type stored struct {
		ID   int32
		Size float32
		When time.Time
		Raw  []byte
		Next *int8
	}
	c, err := codec.Binary.Compile(reflect.TypeFor[stored]())
	if err != nil {
		t.Fatal(err)
	}
	const records = `{"ID":5,"Size":1.5,"When":"2024-01-02T03:04:05+02:00","Raw":"AAE=","Next":null}
{"ID":6,"Size":0,"When":"2024-01-02T03:04:05Z","Raw":"AQ==","Next":7}`
	o, err := NewOwn("m", lines(records), c.Schema())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"int32", "float32", "time.Time", "[]uint8", "*int8"} {
		if got := o.Type().Field(i).Type.String(); got != want {
			t.Errorf("field %d is %s, not %s", i, got, want)
		}
	}
	_, leftOut := study(t, Options{Sizes: []int{3}, Reps: 1, Engines: engines[:2], Durable: []bool{false}, Own: o})
	for c, why := range leftOut {
		if c.Strategy != "msgpack" || !errors.As(why, new(*LossError)) { // msgpack loses the zone of a time
			t.Errorf("%v: %v", c, why)
		}
	}
}
