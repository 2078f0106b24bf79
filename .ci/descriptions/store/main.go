// Command store makes a store of typed values in the directory that is named: kinds of all sorts, by both codecs, and
// with two versions of a type. What copal schema says of them is compared with the values.
package main

import (
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

type place struct {
	Lat, Lon float64
	Label    *string
}

type order struct {
	ID       int64 `json:"id"`
	Customer string
	Paid     bool
	At       time.Time
	Lines    []line
	Tags     map[string][]string
	Where    *place `json:"where,omitempty"`
	Photo    []byte
	Sums     [2]uint8
	Before   *order
	Any      any `json:"any,omitempty"`
}

type line struct {
	Name     string
	Count    uint32
	Price    float32
	Discount *float64
}

type plain struct {
	Name  string
	Age   int8
	When  time.Time
	Ratio float64
	Parts []line
	Next  *plain
	Index map[string]int64
	Raw   []byte
}

type older struct{ Name, City string }

type newer struct {
	Name  string
	Towns []string
}

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	rng := rand.New(rand.NewPCG(1, 2))
	before := func(db *copal.DB) error {
		return fill(db, "people", func() older { return older{word(rng), word(rng)} })
	}
	now := func(db *copal.DB) error {
		return errors.Join(
			fill(db, "people", func() newer { return newer{word(rng), []string{word(rng)}} }),
			fill(db, "orders", func() order { return randomOrder(rng, 3) }),
			fill(db, "plain", func() plain { return randomPlain(rng, 2) }, copal.WithCodec(codec.Binary)),
			fill(db, "big numbers", func() uint64 { return rng.Uint64N(1 << 53) }),
			fill(db, "lists", func() [][]int16 { return [][]int16{{1, -2}, nil, {}} }, copal.WithCodec(codec.Binary)),
			fill(db, "floats", func() float64 { return []float64{1.5, math.Inf(1), math.Inf(-1), math.NaN(), 0}[rng.IntN(5)] }, copal.WithCodec(codec.Binary)),
			db.Raw().Set([]byte("raw:a"), []byte("bytes")))
	}
	for _, version := range []func(*copal.DB) error{before, now} { // of a program
		db, err := copal.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(version(db), db.Close()); err != nil {
			return err
		}
	}
	return nil
}

// fill puts a hundred values into a map.
func fill[V any](db *copal.DB, name string, value func() V, options ...copal.MapOption) error {
	m, err := copal.OpenMap[string, V](db, name, options...)
	if err != nil {
		return err
	}
	for i := range 100 {
		if err := m.Set(fmt.Sprintf("%T %d", *new(V), i), value()); err != nil {
			return err
		}
	}
	return nil
}

func word(rng *rand.Rand) string {
	return strings.Repeat(string([]rune("aé\"\\\u2028<𝄞")[rng.IntN(7)]), rng.IntN(5))
}

func some[T any](rng *rand.Rand, f func() T) (list []T) {
	for range rng.IntN(3) {
		list = append(list, f())
	}
	return list
}

func randomLine(rng *rand.Rand) line {
	l := line{Name: word(rng), Count: rng.Uint32(), Price: rng.Float32()}
	if rng.IntN(2) == 0 {
		f := rng.NormFloat64()
		l.Discount = &f
	}
	return l
}

func randomOrder(rng *rand.Rand, deep int) order {
	o := order{ID: rng.Int64N(1 << 53), Customer: word(rng), Paid: rng.IntN(2) == 0, At: time.Unix(rng.Int64N(1<<32), 0).UTC(), Sums: [2]uint8{1, 255},
		Lines: some(rng, func() line { return randomLine(rng) }), Photo: some(rng, func() byte { return byte(rng.Uint32()) })}
	if rng.IntN(2) == 0 {
		o.Tags = map[string][]string{word(rng): {word(rng)}, "none": nil}
		o.Where = &place{Lat: rng.Float64(), Label: &o.Customer}
		o.Any = []any{1.0, "two", nil}
	}
	if deep > 0 && rng.IntN(2) == 0 {
		before := randomOrder(rng, deep-1)
		o.Before = &before
	}
	return o
}

func randomPlain(rng *rand.Rand, deep int) plain {
	p := plain{Name: word(rng), Age: int8(rng.Uint32()), When: time.Unix(rng.Int64N(1<<32), 0).UTC(), Ratio: rng.NormFloat64(),
		Parts: some(rng, func() line { return randomLine(rng) }), Raw: some(rng, func() byte { return byte(rng.Uint32()) })}
	if rng.IntN(2) == 0 {
		p.Ratio = math.Inf(1)
		p.Index = map[string]int64{word(rng): -1}
	}
	if deep > 0 && rng.IntN(2) == 0 {
		next := randomPlain(rng, deep-1)
		p.Next = &next
	}
	return p
}
