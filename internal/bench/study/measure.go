package study

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"time"
)

// errNotKept is why a table is left out that cannot keep records of the type.
var errNotKept = errors.New("the strategy cannot keep these records")

// notKept marks an error of an encoding, which is no error of the store.
func notKept(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errNotKept, err)
}

// storeDir names the directories of stores that are measured.
const storeDir = ".study-*"

// at is a repetition of a cell while it is measured.
type at struct {
	context.Context
	Cell
	subject subject
	rep     int
	table   table
	results []Result
	sum     float64 // of the summed field of the inserted records
	file    float64
	logical float64
}

// measure makes a store, measures the steps, and removes the store.
func (r *run) measure(ctx context.Context, c Cell, rep int) (_ []Result, err error) {
	dir, err := os.MkdirTemp(r.Dir, storeDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := strategies[slices.IndexFunc(strategies, func(s strategy) bool { return s.name == c.Strategy })]
	open := func() (table, error) {
		for _, e := range r.Engines {
			if e.Name == c.Engine {
				return s.open(e, dir, c.Durable, r.subject)
			}
		}
		return nil, fmt.Errorf("there is no engine %q", c.Engine)
	}
	a := &at{Context: ctx, Cell: c, subject: r.subject, rep: rep}
	if a.table, err = open(); err != nil {
		return nil, err
	}
	defer func() {
		if a.table != nil {
			err = errors.Join(err, a.table.close())
		}
	}()
	if err := a.insert(); err != nil {
		return nil, err
	}
	if err := a.reopen(dir, open); err != nil {
		return nil, err
	}
	steps := []func() error{a.lossless, a.read, a.readMany, a.fieldSum, a.update}
	if c.Durable { // syncs do not change reads
		steps = []func() error{a.lossless, a.update}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for i := range a.results {
		a.results[i].FileBytes, a.results[i].LogicalBytes = a.file, a.logical
	}
	return a.results, nil
}

// A clock adds up the time and the allocations of a step, except while it is stopped.
type clock struct {
	took           time.Duration
	mallocs, bytes uint64
	start          time.Time
	before         runtime.MemStats
}

func startClock() *clock {
	runtime.GC()
	k := &clock{}
	k.run()
	return k
}

func (k *clock) run() {
	runtime.ReadMemStats(&k.before)
	k.start = time.Now()
}

func (k *clock) stop() {
	k.took += time.Since(k.start)
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	k.mallocs += now.Mallocs - k.before.Mallocs
	k.bytes += now.TotalAlloc - k.before.TotalAlloc
}

// done notes the step, of n records.
func (a *at) done(step Step, k *clock, n int) {
	k.stop()
	per := func(x float64) float64 { return x / float64(n) }
	a.results = append(a.results, Result{Cell: a.Cell, Repetition: a.rep, Step: step, Nanoseconds: per(float64(k.took)),
		Allocations: per(float64(k.mallocs)), AllocBytes: per(float64(k.bytes))})
}

// chunk is the number of records to make at a time, while the clock is stopped.
const chunk = 1000

func (a *at) insert() error {
	records := make([]any, min(chunk, a.Records))
	for i := range records {
		records[i] = a.subject.New()
	}
	if err := a.firstWrite(); err != nil {
		return err
	}
	k := startClock()
	at := 0
	err := a.table.insert(func() (uint64, any) {
		if at%chunk == 0 && at < a.Records {
			k.stop()
			if a.Err() != nil {
				k.run()
				return 0, nil
			}
			for i := range min(chunk, a.Records-at) {
				a.subject.Make(uint64(at+i), records[i])
				a.sum += a.subject.Number(records[i])
			}
			k.run()
		}
		if at >= a.Records {
			return 0, nil
		}
		at++
		return uint64(at - 1), records[(at-1)%chunk]
	}, a.Together)
	if err == nil {
		err = context.Cause(a)
	}
	if err != nil {
		return err
	}
	a.done(Insert, k, a.Records)
	return nil
}

// firstWrite writes a record unchanged. With the first write after a store is opened, copal makes
// the files that bbolt makes at opening, which is not measured.
func (a *at) firstWrite() error {
	record, done := a.subject.New(), false
	a.subject.Make(0, record)
	return a.table.insert(func() (uint64, any) {
		if done {
			return 0, nil
		}
		done = true
		return 0, record
	}, false)
}

// reopen closes the store, looks how large its files are, opens it and reads each record once, so
// that the next steps measure a program that has been running for a while.
func (a *at) reopen(dir string, open func() (table, error)) (err error) {
	err = a.table.close()
	a.table = nil
	if err != nil {
		return err
	}
	size, err := fileBytes(dir)
	if err != nil {
		return err
	}
	a.file = float64(size) / float64(a.Records)
	if a.table, err = open(); err != nil {
		return err
	}
	if err := a.firstWrite(); err != nil {
		return err
	}
	if a.Durable {
		return nil // reads are not measured
	}
	record := a.subject.New()
	for number := range a.Records {
		reset(record)
		if err := a.table.read(uint64(number), record); err != nil {
			return err
		}
		if number%chunk == 0 && a.Err() != nil {
			return context.Cause(a)
		}
	}
	return nil
}

// fileBytes adds up the files below dir. A file with holes counts as the disk counts it.
func fileBytes(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += min(info.Size(), allocated(info))
		}
		return err
	})
	return sum, err
}

// probes are numbers all over the table.
func (a *at) probes() []uint64 {
	const most = 100
	n := min(most, a.Records)
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i * a.Records / n)
	}
	list[n-1] = uint64(a.Records - 1)
	return list
}

// compare reads a record and compares all of it.
func (a *at) compare(number uint64, want any) error {
	got := a.subject.New()
	if err := a.table.read(number, got); err != nil {
		return err
	}
	if !same(got, want) {
		return &LossError{number, reflect.ValueOf(got).Elem().Interface(), reflect.ValueOf(want).Elem().Interface()}
	}
	return nil
}

// same compares all fields. Two that say the same as JSON are the same: a time may come back with
// another pointer to its zone.
func same(got, want any) bool {
	if reflect.DeepEqual(got, want) {
		return true
	}
	if _, ok := got.(*User); ok {
		return false
	}
	a, err1 := json.Marshal(got)
	b, err2 := json.Marshal(want)
	return err1 == nil && err2 == nil && bytes.Equal(a, b) // nil and empty lists differ there, too
}

// lossless compares records over the whole table, and notes how many bytes they are.
func (a *at) lossless() error {
	record, total := a.subject.New(), 0
	numbers := a.probes()
	for _, number := range numbers {
		reset(record)
		a.subject.Make(number, record)
		if err := a.compare(number, record); err != nil {
			return err
		}
		n, err := a.table.size(number, record)
		if err != nil {
			return err
		}
		total += n
	}
	a.logical = float64(total) / float64(len(numbers))
	return nil
}

// shuffled returns half of the numbers, in random order, another one in each repetition.
func (a *at) shuffled(step uint64) []int32 {
	random := rand.New(rand.NewPCG(uint64(a.rep)<<8|step, uint64(a.Records)))
	order := make([]int32, a.Records)
	for i := range order {
		order[i] = int32(i)
	}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order[:max(a.Records/2, 1)]
}

func (a *at) wrong(number uint64, got any) error {
	want := a.subject.New()
	a.subject.Make(number, want)
	return &LossError{number, reflect.ValueOf(got).Elem().Interface(), reflect.ValueOf(want).Elem().Interface()}
}

func (a *at) read() error {
	order, record := a.shuffled(1), a.subject.New()
	k := startClock()
	for i, number := range order {
		reset(record)
		if err := a.table.read(uint64(number), record); err != nil {
			return err
		}
		if !a.subject.Is(record, uint64(number)) {
			return a.wrong(uint64(number), record)
		}
		if i%chunk == 0 && a.Err() != nil {
			return context.Cause(a)
		}
	}
	a.done(Read, k, len(order))
	return nil
}

func (a *at) readMany() error {
	from, n, seen := uint64(a.Records/2), max(a.Records/3, 1), 0
	k := startClock()
	err := a.table.readMany(from, n, func(record any) error {
		if number := from + uint64(seen); !a.subject.Is(record, number) {
			return a.wrong(number, record)
		}
		seen++
		return nil
	})
	if err == nil && seen != n {
		err = fmt.Errorf("%d records in a row are %d", n, seen)
	}
	if err != nil {
		return err
	}
	a.done(ReadMany, k, n)
	return context.Cause(a)
}

func (a *at) fieldSum() error {
	k := startClock()
	sum, n, err := a.table.sum()
	if err != nil {
		return err
	}
	a.done(FieldSum, k, a.Records)
	// A sum in another order is rounded otherwise.
	if n != a.Records || math.Abs(sum-a.sum) > 1e-9*math.Abs(a.sum) {
		return &LossError{0, fmt.Sprintf("%d records with a sum of %v", n, sum), fmt.Sprintf("%d with %v", a.Records, a.sum)}
	}
	return context.Cause(a)
}

func (a *at) update() error {
	order := a.shuffled(2)
	k := startClock()
	for i, number := range order {
		if err := a.table.update(uint64(number), a.rep); err != nil {
			return err
		}
		if i%chunk == 0 && a.Err() != nil {
			return context.Cause(a)
		}
	}
	a.done(Update, k, len(order))
	want := a.subject.New()
	for i := 0; i < len(order); i += max(len(order)/100, 1) {
		reset(want)
		number := uint64(order[i])
		a.subject.Make(number, want)
		a.subject.Touch(want, number, a.rep)
		if err := a.compare(number, want); err != nil {
			return err
		}
	}
	return nil
}
