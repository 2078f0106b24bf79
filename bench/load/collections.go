package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// collections is the number of collections in the store of a line.
const collections = 5

// batchRecords is the number of records that a transaction writes.
const batchRecords = 1000

// A record is some 1.2 KB of JSON.
type record struct {
	ID         int        `json:"id"`
	Collection int        `json:"collection"`
	Name       string     `json:"name"`
	Email      string     `json:"email"`
	Age        int        `json:"age"`
	Balance    float64    `json:"balance"`
	Active     bool       `json:"active"`
	Created    int64      `json:"created"`
	Address    address    `json:"address"`
	Tags       [6]string  `json:"tags"`
	Scores     [8]float64 `json:"scores"`
	Notes      string     `json:"notes"`
}

type address struct {
	Street  string `json:"street"`
	City    string `json:"city"`
	Country string `json:"country"`
}

// text is where all texts of records are cut from: words of letters at random.
var text = sync.OnceValue(func() string {
	random := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for b.Len() < 256<<10 {
		for range 2 + random.IntN(9) {
			b.WriteByte(byte('a' + random.IntN(26)))
		}
		b.WriteByte(' ')
	}
	return b.String()
})

// A picker makes pseudo-random numbers from a number, always the same.
type picker uint64

func (p *picker) below(n int) int {
	*p += 0x9e3779b97f4a7c15
	z := uint64(*p)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) >> 1 % uint64(n))
}

func (p *picker) text(n int) string {
	all := text()
	at := p.below(len(all) - n)
	return all[at : at+n]
}

// recordText is the length of the text of a record, at most.
const recordText = 1000

// recordOf makes a record to compare with. It allocates nothing.
func recordOf(collection, i int) record {
	p := pickerOf(collection, i)
	return p.record(collection, i, p.text(recordText))
}

// ownRecord makes a record whose text is its own, as in a program that has read it. A copy that a
// store keeps takes memory.
func ownRecord(collection, i int) record {
	p := pickerOf(collection, i)
	return p.record(collection, i, strings.Clone(p.text(recordText)))
}

func pickerOf(collection, i int) picker { return picker(collection)<<40 + picker(i) }

func (p *picker) record(collection, i int, all string) record {
	cut := func(n int) (part string) {
		part, all = all[:n], all[n:]
		return part
	}
	r := record{
		ID: i, Collection: collection, Name: cut(20), Email: cut(24), Age: 18 + p.below(80),
		Balance: float64(p.below(10_000_000)) / 100, Active: p.below(2) == 1, Created: 1_700_000_000 + int64(p.below(100_000_000)),
		Address: address{cut(30), cut(15), cut(12)},
	}
	for j := range r.Tags {
		r.Tags[j] = cut(8)
	}
	for j := range r.Scores {
		r.Scores[j] = float64(p.below(100_000)) / 1000
	}
	r.Notes = cut(740 + p.below(100))
	return r
}

func recordKey(i int) string { return fmt.Sprintf("record-%08d", i) }

func openRecords(s *spec) (side[record], error) {
	return openSide(s.Side, s.Dir, collections, false, jsonForm[record]())
}

// writeRecords fills the collections one after the other, in the order of the keys, and syncs once.
func writeRecords(s *spec, f figures) error {
	text() // it is made before the clock begins
	st, err := openRecords(s)
	if err != nil {
		return err
	}
	start := time.Now()
	err = fillRecords(st, s.Records, ownRecord)
	f["time"] = time.Since(start).Seconds()
	return errors.Join(err, f.memory(), st.close())
}

func fillRecords(st side[record], n int, of func(collection, i int) record) error {
	for c := range collections {
		for from := 0; from < n; from += batchRecords {
			err := st.batch(c, min(batchRecords, n-from), func(i int) (string, record) { return recordKey(from + i), of(c, from+i) })
			if err != nil {
				return err
			}
		}
	}
	return st.sync()
}

// readRecords opens the store and reads records at random. The clock has both.
func readRecords(s *spec, f figures) error {
	text()
	random := rand.New(rand.NewPCG(2, uint64(s.Round)))
	start := time.Now()
	st, err := openRecords(s)
	if err != nil {
		return err
	}
	for range s.Times {
		if err = readRecord(st, random, s.Records); err != nil {
			break
		}
	}
	f["time"] = time.Since(start).Seconds()
	return errors.Join(err, f.memory(), st.close())
}

func readRecord(st side[record], random *rand.Rand, n int) error {
	c, i := random.IntN(collections), random.IntN(n)
	got, err := st.get(c, recordKey(i))
	if err != nil {
		return fmt.Errorf("record %d of collection %d: %w", i, c, err)
	}
	if want := recordOf(c, i); got != want {
		return fmt.Errorf("record %d of collection %d is %+v, not %+v", i, c, got, want)
	}
	return nil
}

// openAndClose opens the store, reads one record and closes the store, again and again.
func openAndClose(s *spec, f figures) error {
	text()
	random := rand.New(rand.NewPCG(3, uint64(s.Round)))
	times := make([]time.Duration, 0, s.Times)
	for range s.Times {
		start := time.Now()
		st, err := openRecords(s)
		if err != nil {
			return err
		}
		if err := errors.Join(readRecord(st, random, s.Records), st.close()); err != nil {
			return err
		}
		times = append(times, time.Since(start))
		f["time"] += times[len(times)-1].Seconds()
	}
	slices.Sort(times)
	f["p50"] = times[len(times)/2].Seconds()
	f["p99"] = times[len(times)*99/100].Seconds()
	return f.memory()
}
