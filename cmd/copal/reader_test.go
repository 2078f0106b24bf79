package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/pagetest"
	"github.com/copaldb/copal/internal/seglog"
)

// docs/format.md is tested by a reader that was written from it alone, in another language
// (testdata/reader): 'copal check' and 'copal export' must have the same answer on each store.

// told returns the command's answer on a store, in the words of the reader, and the time.
func told(t *testing.T, dir string) (a pagetest.Answer, now time.Time) {
	t.Helper()
	report, err := admin.Check(context.Background(), dir, nil)
	a = pagetest.Answer{Verdict: "sound", Keys: report.Keys, Records: report.Records, Torn: report.TornBytes}
	switch {
	case err == nil, errors.Is(err, copal.ErrCopied):
	case errors.Is(err, copal.ErrCorrupt):
		return pagetest.Answer{Verdict: "damaged", Why: err.Error()}, time.Now()
	case errors.Is(err, copal.ErrVersion):
		return pagetest.Answer{Verdict: "newer", Why: err.Error()}, time.Now()
	case errors.Is(err, fs.ErrNotExist):
		return pagetest.Answer{Verdict: "no store"}, time.Now()
	default:
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	code := carryOut(cli.NewApp(strings.NewReader(""), &out, &problems), []string{"export", "--copied", dir})
	if code != 0 {
		t.Fatalf("export of %s: code %d: %s", dir, code, problems.String())
	}
	var head struct{ Time time.Time }
	line, _, _ := strings.Cut(out.String(), "\n")
	if err := json.Unmarshal([]byte(line), &head); err != nil {
		t.Fatal(err)
	}
	a.Export = out.String()
	return a, head.Time
}

// wantSame fails unless the reader and the command give the same answer on a store.
func wantSame(t *testing.T, r *pagetest.Reader, dir, what string) pagetest.Answer {
	t.Helper()
	want, now := told(t, dir)
	got := r.Ask("store", dir, now)
	if got.Verdict != want.Verdict {
		t.Fatalf("%s: the reader says %q, %s; the command %q, %s", what, got.Verdict, got.Why, want.Verdict, want.Why)
	}
	if want.Torn > 0 { // records beyond a hole are counted by check alone
		got.Records = want.Records
	}
	if got.Why = want.Why; reflect.DeepEqual(got, want) {
		return want
	}
	ours, theirs := strings.Split(want.Export, "\n"), strings.Split(got.Export, "\n")
	for i := range min(len(ours), len(theirs)) {
		if ours[i] != theirs[i] {
			t.Fatalf("%s: line %d of the export\ncopal  %.300s\nreader %.300s", what, i+1, ours[i], theirs[i])
		}
	}
	t.Fatalf("%s: the command says keys %d, records %d, torn %d, %d lines; the reader %d, %d, %d, %d", what,
		want.Keys, want.Records, want.Torn, len(ours), got.Keys, got.Records, got.Torn, len(theirs))
	return want
}

// TestReader compares random stores: closed, killed, cut and damaged. COPAL_LONG=1 takes a thousand
// of them.
func TestReader(t *testing.T) {
	r := pagetest.Start(t)
	stores := 16
	if pagetest.Long() {
		stores = 1000
	}
	segment, ring := seglog.DefaultSegmentBytes, seglog.DefaultRingBytes
	defer func() { seglog.DefaultSegmentBytes, seglog.DefaultRingBytes = segment, ring }()
	verdicts := map[string]int{}
	for seed := range uint64(stores) {
		dir, what := readerStore(t, seed)
		verdicts[state(wantSame(t, r, dir, fmt.Sprintf("seed %d, %s, in %s", seed, what, dir)))]++
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d stores: %v", stores, verdicts)
}

func state(a pagetest.Answer) string {
	if a.Torn > 0 {
		return "torn"
	}
	return a.Verdict
}

// TestReaderAfterKill compares stores whose process was killed while it wrote: unchanged, and
// damaged.
func TestReaderAfterKill(t *testing.T) {
	r := pagetest.Start(t)
	kills := 2
	if pagetest.Long() {
		kills = 30
	}
	verdicts := map[string]int{}
	for seed := range uint64(kills) {
		rng := rand.New(rand.NewPCG(seed, 17))
		home := t.TempDir()
		dir := filepath.Join(home, "store")
		for range 1 + rng.IntN(2) { // the second goes on where the first was killed
			killWriter(t, dir, rng)
		}
		verdicts[state(wantSame(t, r, dir, fmt.Sprintf("seed %d, killed, in %s", seed, dir)))]++
		for n := range 5 {
			hurt := filepath.Join(home, fmt.Sprint(n))
			copyDir(t, dir, hurt)
			what := pagetest.Hurt(t, rng, hurt, dir, 1)
			verdicts[state(wantSame(t, r, hurt, fmt.Sprintf("seed %d, killed, %s, in %s", seed, what, hurt)))]++
		}
	}
	t.Logf("%d kills: %v", kills, verdicts)
}

// childVariable names the directory to which a process writes until it is killed.
const childVariable = "COPAL_READER_CHILD"

// killWriter lets a process write to a store, and kills it after some writes.
func killWriter(t *testing.T, dir string, rng *rand.Rand) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", childVariable, rng.Uint32(), dir))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, out, 1+rng.Int64N(400))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
}

// writeUntilKilled is the main function of such a process. It prints a byte for each write.
func writeUntilKilled(order string) {
	var seed uint64
	var dir string
	if _, err := fmt.Sscan(order, &seed, &dir); err != nil {
		log.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 18))
	seglog.DefaultSegmentBytes, seglog.DefaultRingBytes = 600+rng.Int64N(6000), 4<<(10+rng.IntN(5))
	w := openWritten(rng, dir, func(err error) { log.Fatal(err) })
	for w.far = true; ; {
		w.act()
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			os.Exit(3) // the test is gone
		}
	}
}

// readerStore makes a store, and describes its making. The content depends on the seed alone,
// except for the work of the store's goroutines in between.
func readerStore(t *testing.T, seed uint64) (dir, what string) {
	rng := rand.New(rand.NewPCG(seed, 15))
	seglog.DefaultSegmentBytes = 600 + rng.Int64N(6000)
	seglog.DefaultRingBytes = 4 << (10 + rng.IntN(5))
	home := t.TempDir()
	dir = filepath.Join(home, "store")
	// The bubble has a clock of its own, which begins in the year 2000: each deadline of it has
	// passed by now.
	synctest.Test(t, func(t *testing.T) {
		what = liveStore(t, rng, home, dir, seed)
	})
	return filepath.Join(home, "copy"), what
}

func liveStore(t *testing.T, rng *rand.Rand, home, dir string, seed uint64) string {
	older := filepath.Join(home, "older")
	runs := 1 + rng.IntN(3)
	for run := range runs {
		w := openWritten(rng, dir, func(err error) { t.Fatal(err) })
		if seed%20 == 7 {
			w.acts = append(w.acts, w.largeValue, w.largeGroup)
		}
		for range 5 + rng.IntN(60) {
			w.act()
		}
		if run == 0 {
			copyDir(t, dir, older)
		}
		if run == runs-1 && rng.IntN(6) == 0 {
			if _, err := w.db.Backup(context.Background(), filepath.Join(home, "copy"), nil); err != nil {
				t.Fatal(err)
			}
			w.close()
			return "a backup, " + pagetest.Hurt(t, rng, filepath.Join(home, "copy"), older, 1)
		}
		if run == runs-1 && rng.IntN(2) == 0 {
			copyDir(t, dir, filepath.Join(home, "copy"))
			w.close()
			return "killed, " + pagetest.Hurt(t, rng, filepath.Join(home, "copy"), older, 2)
		}
		w.close()
	}
	copyDir(t, dir, filepath.Join(home, "copy"))
	return "closed, " + pagetest.Hurt(t, rng, filepath.Join(home, "copy"), older, 1)
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	list, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o777)
	}
	for _, e := range list {
		var b []byte
		if err == nil {
			b, err = os.ReadFile(filepath.Join(from, e.Name()))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), b, 0o666)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writer writes a store at random.
type writer struct {
	rng  *rand.Rand
	db   *copal.DB
	fail func(error) // does not return
	acts []func() error
	far  bool // deadlines are far off, and the clock is the system's
}

type person struct {
	Name string
	Age  int
	Tags []string `json:",omitempty"`
}

type shelfPlace struct {
	Room  string
	Shelf int
}

type tagged struct {
	Tag [2]byte
	N   int
}

func openWritten(rng *rand.Rand, dir string, fail func(error)) *writer {
	db, err := copal.Open(dir, copal.WithSyncInterval(time.Hour), copal.WithErrorHandler(fail))
	if err != nil {
		fail(err)
	}
	w := &writer{rng: rng, db: db, fail: fail}
	w.plan()
	return w
}

func (w *writer) close() {
	if err := w.db.Close(); err != nil {
		w.fail(err)
	}
}

func (w *writer) act() {
	err := w.acts[w.rng.IntN(len(w.acts))]()
	if err != nil && !errors.Is(err, copal.ErrNotFound) && !errors.Is(err, copal.ErrType) {
		w.fail(err)
	}
	if !w.far && w.rng.IntN(4) == 0 {
		time.Sleep(time.Duration(w.rng.IntN(5000)) * time.Millisecond) // of the bubble's clock
	}
}

// word returns one of a few.
func (w *writer) word() string {
	return []string{"a", "b", "ab", "", "alice", "日本", "x\xffy", "users", "a/b%", "line\nfeed"}[w.rng.IntN(10)]
}

// bytes returns any bytes, now and then text, JSON, or a lookalike of a record.
func (w *writer) bytes() []byte {
	switch w.rng.IntN(6) {
	case 0:
		return []byte(`{"a": [1, 2.50e3, "\u00e9"]}`)
	case 1:
		return []byte(" 12")
	case 2:
		return []byte("3e1aed18 Sv 0 1 2f 3e8 b 19 users:alice {}\n")
	case 3:
		return []byte(strings.Repeat("\x00\x01\"\\é", w.rng.IntN(9)))
	case 4:
		return []byte{}
	}
	b := make([]byte, w.rng.IntN(300))
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
	return b
}

// moment returns a deadline that has passed by now, or one that is far off.
func (w *writer) moment() time.Time {
	n := w.rng.IntN(4)
	if w.far {
		n %= 2
	}
	switch n {
	case 0:
		return time.Date(2150, 12, 31, 23, 59, 59, 999e6, time.UTC)
	case 1:
		return time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Now().Add(time.Duration(1+w.rng.IntN(20000)) * time.Millisecond)
}

// plan lists the operations. One listed twice is done twice as often.
func (w *writer) plan() {
	users := openedMap[string, person](w, "users")
	counts := openedMap[int64, float64](w, "counts: 100%", copal.Ordered())
	scores := openedMap[float64, string](w, "scores")
	places := openedMap[shelfPlace, []byte](w, "places", copal.WithCodec(codec.Binary), copal.Ordered())
	packed := openedMap[uint16, map[string]person](w, "packed", copal.WithCodec(codec.Binary))
	days := openedMap[time.Time, bool](w, "days")
	tags := openedMap[tagged, int](w, "tags", copal.Ordered())
	raw := w.db.Raw()
	user := func() person {
		return person{w.word(), w.rng.IntN(90), slices.Repeat([]string{"t"}, w.rng.IntN(3))}
	}
	number := func() float64 { return float64(w.rng.IntN(40)-20) / 8 }
	day := func() time.Time {
		return time.Date(1900+w.rng.IntN(300), 2, 1+w.rng.IntN(28), 0, 0, w.rng.IntN(60), w.rng.IntN(3), time.UTC)
	}
	place := func() shelfPlace { return shelfPlace{w.word(), w.rng.IntN(9) - 4} }
	tag := func() tagged { return tagged{[2]byte{byte(w.rng.IntN(2)), byte(w.rng.IntN(2))}, w.rng.IntN(3) - 1} }
	valid := func(s string) string { return strings.ToValidUTF8(s, "?") }
	w.acts = []func() error{
		func() error { return users.Set(w.word(), user()) },
		func() error { return users.Set(w.word(), user()) },
		func() error { return users.SetUntil(w.word(), user(), w.moment()) },
		func() error { _, err := users.Delete(w.word()); return err },
		func() error { return counts.Set(int64(w.rng.IntN(4000)-2000), number()) },
		func() error { return counts.Set(int64(w.rng.Uint64()), number()) },
		func() error { a := int64(w.rng.IntN(2000) - 1000); return counts.DeleteRange(a, a+500) },
		func() error { return scores.Set(number(), w.word()) },
		func() error { a := number(); return scores.DeleteRange(a, a+1) },
		func() error { return places.Set(place(), w.bytes()) },
		func() error { return places.DeleteRange(place(), place()) },
		func() error { return packed.Set(uint16(w.rng.IntN(9)), map[string]person{w.word(): user()}) },
		func() error { return days.Set(day(), true) },
		func() error { return days.DeleteRange(day(), day()) },
		func() error { return tags.Set(tag(), w.rng.IntN(9)) },
		func() error { return tags.DeleteRange(tag(), tag()) },
		func() error { return raw.Set([]byte(w.word()), w.bytes()) },
		func() error { return raw.Set([]byte(w.word()), w.bytes()) },
		func() error { return raw.SetUntil([]byte(w.word()), w.bytes(), w.moment()) },
		func() error {
			return admin.Put(w.db, &admin.Entry{Key: []byte(w.word()), Value: w.bytes(), Content: "image/png", Expires: w.moment()})
		},
		func() error { _, err := raw.Delete([]byte(w.word())); return err },
		func() error { return raw.DeletePrefix([]byte(w.word() + "x")) },
		func() error { return raw.DeleteRange([]byte("a"), []byte("ab")) },
		func() error { return w.hash(raw) },
		func() error { return w.hash(raw) },
		func() error { return w.list() },
		func() error { return w.set(valid(w.word())) },
		func() error { return w.sorted(valid(w.word())) },
		func() error { return w.transaction(users, counts) },
		func() error { return w.transaction(users, counts) },
		w.db.Sync,
	}
	if w.rng.IntN(3) == 0 {
		w.acts = append(w.acts, func() error { return w.db.Compact(context.Background(), nil) },
			users.Clear, places.Clear, func() error { return users.DeletePrefix("a") })
	}
}

func openedMap[K comparable, V any](w *writer, name string, opts ...copal.MapOption) *copal.Map[K, V] {
	m, err := copal.OpenMap[K, V](w.db, name, opts...)
	if err != nil {
		w.fail(err)
	}
	return m
}

func (w *writer) hash(raw *copal.Raw) error {
	h := raw.Hash([]byte("hash " + w.word()))
	switch w.rng.IntN(6) {
	case 0:
		_, err := h.Delete(w.word(), w.word())
		return err
	case 1:
		_, err := h.Clear()
		return err
	case 2:
		return h.ExpireAt(w.moment())
	case 3:
		return h.Rename("hash " + w.word())
	}
	return h.SetAll(map[string][]byte{w.word(): w.bytes(), w.word(): w.bytes()})
}

func (w *writer) list() error {
	l, err := copal.OpenList[person](w.db, "list")
	if err != nil {
		return err
	}
	switch w.rng.IntN(5) {
	case 0:
		_, _, err = l.PopFront()
	case 1:
		_, _, err = l.PopBack()
	case 2:
		err = l.PushFront(person{Name: w.word()})
	default:
		err = l.PushBack(person{Name: w.word()}, person{Age: 3})
	}
	return err
}

func (w *writer) set(key string) error {
	s, err := copal.OpenSet[string](w.db, "set "+key)
	if err != nil {
		return err
	}
	if w.rng.IntN(3) == 0 {
		_, err = s.Delete(w.word())
		return err
	}
	_, err = s.Add(w.word(), w.word())
	return err
}

func (w *writer) sorted(key string) error {
	s, err := copal.OpenSortedSet[string](w.db, "sorted "+key)
	if err != nil {
		return err
	}
	if w.rng.IntN(3) == 0 {
		_, err = s.Delete(w.word())
		return err
	}
	return s.Set(w.word(), float64(w.rng.IntN(100))/4-10)
}

func (w *writer) transaction(users *copal.Map[string, person], counts *copal.Map[int64, float64]) error {
	give := errors.New("given up")
	err := w.db.Update(func(tx *copal.Tx) error {
		for range 1 + w.rng.IntN(4) {
			err := error(nil)
			switch w.rng.IntN(5) {
			case 0:
				_, err = users.In(tx).Delete(w.word())
			case 1:
				err = w.db.Raw().In(tx).Set([]byte(w.word()), w.bytes())
			case 2:
				err = w.db.Raw().In(tx).DeleteRange([]byte("a"), []byte("b"))
			case 3:
				err = counts.In(tx).Set(int64(w.rng.IntN(9)), 1)
			default:
				err = users.In(tx).Set(w.word(), person{Name: w.word()})
			}
			if err != nil {
				return err
			}
		}
		if w.rng.IntN(5) == 0 {
			return give
		}
		return nil
	})
	if err == give {
		return nil
	}
	return err
}

// largeValue writes a value in parts.
func (w *writer) largeValue() error {
	text := "é\"x日"
	if w.rng.IntN(2) == 0 {
		text = "\xff\x00abc"
	}
	n := 1<<20 + 1 + w.rng.IntN(3000)
	return w.db.Raw().Set([]byte("film"), []byte(strings.Repeat(text, n/len(text)+1)[:n]))
}

// largeGroup writes a group that is written ahead, with members in several segments.
func (w *writer) largeGroup() error {
	return w.db.Update(func(tx *copal.Tx) error {
		for _, key := range []string{"a", "film", "b"} {
			if err := w.db.Raw().In(tx).Set([]byte(key), bytes.Repeat([]byte{'x'}, 400_000)); err != nil {
				return err
			}
		}
		return nil
	})
}
