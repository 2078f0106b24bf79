package geo

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/geohash"
	"github.com/copaldb/copal/redisapi/internal/commandtest"
)

// A search in ranges of scores finds the same members as a look at all of them: at the poles, where east meets west, in
// boxes and circles of a metre and of the whole earth; and it comes by few others.
func TestPlacesAreFound(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	some := func() geohash.Point {
		p := geohash.Point{Lon: r.Float64()*360 - 180, Lat: r.Float64()*170 - 85}
		switch r.IntN(4) {
		case 0:
			p = geohash.Point{Lon: 10 + r.Float64(), Lat: 50 + r.Float64()}
		case 1:
			p.Lon = []float64{-180, 180, 179.9 + r.Float64()/10, -180 + r.Float64()/10}[r.IntN(4)]
		case 2:
			p.Lat = []float64{-geohash.MaxLatitude, geohash.MaxLatitude, 84 + r.Float64(), -84 - r.Float64()}[r.IntN(4)]
		}
		return p
	}
	s := db.Raw().SortedSet([]byte("g"))
	scores := map[string]float64{}
	for i := range 3000 {
		scores[strconv.Itoa(i)] = float64(some().Score())
	}
	if err := s.SetAll(scores); err != nil {
		t.Fatal(err)
	}
	if err := s.Set("no place", -1); err != nil {
		t.Fatal(err)
	}
	lengths := []float64{0, 1, 1e3, 2e4, 3e5, 1e6, 5e6, 1e7, 1.9e7, 2.1e7, 5e7}
	length := func() float64 { return lengths[r.IntN(len(lengths))] * (0.5 + r.Float64()) }
	for range 500 {
		q := geoQuery{Area: geohash.Area{At: some(), Radius: length()}, unit: 1}
		if r.IntN(2) == 0 {
			q.Box, q.Width, q.Height = true, length(), length()
		}
		if r.IntN(4) == 0 {
			if p, ok := geohash.PointOf(scores[strconv.Itoa(r.IntN(3000))]); ok {
				q.At = p
			}
		}
		c := commandtest.Bare(nil, nil)
		var want []string
		for name, score := range scores {
			if p, ok := geohash.PointOf(score); ok {
				if _, in := q.Has(p); in {
					want = append(want, name)
				}
			}
		}
		var got []string
		for _, f := range q.search(c, s) {
			got = append(got, f.Name)
		}
		c.Turn.End()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, %+v: %d found, want %d", seed, q, len(got), len(want))
		}
		if n := len(q.Scores()); n > 100 {
			t.Errorf("%+v: %d ranges", q, n)
		}
	}
}
