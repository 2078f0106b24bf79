package geohash

import (
	"math"
	"testing"
)

// Texts and distances are those that Redis documents.
func TestKnownPlaces(t *testing.T) {
	palermo, catania := Point{13.361389, 38.115556}, Point{15.087269, 37.502669}
	if a, b := palermo.Hash(), catania.Hash(); a != "sqc8b49rny0" || b != "sqdtr74hyu0" {
		t.Error(a, b)
	}
	if palermo.Score() != 3479099956230698 {
		t.Error(palermo.Score())
	}
	a, _ := PointOf(float64(palermo.Score()))
	b, _ := PointOf(float64(catania.Score()))
	if d := Distance(a, b); math.Abs(d-166274.1516) > 1e-4 {
		t.Error(d)
	}
}

// A place is found again near where it was, has the same score there, and is within each area around it. Numbers that
// are no scores of places are none.
func FuzzPoint(f *testing.F) {
	f.Add(13.361389, 38.115556, 200.0)
	f.Add(-180.0, -MaxLatitude, 0.0)
	f.Add(180.0, MaxLatitude, 1e9)
	f.Fuzz(func(t *testing.T, lon, lat, length float64) {
		PointOf(length)
		if !(math.Abs(lon) <= MaxLongitude && math.Abs(lat) <= MaxLatitude && length >= 0 && length < 1e12) {
			return
		}
		p := Point{lon, lat}
		q, ok := PointOf(float64(p.Score()))
		if !ok || math.Abs(q.Lon-lon) > 6e-6 || math.Abs(q.Lat-lat) > 3e-6 || q.Score() != p.Score() {
			t.Fatalf("%v is %v, %v", p, q, ok)
		}
		for _, a := range []Area{{At: q, Radius: length}, {At: q, Width: length, Height: length, Box: true}} {
			if _, in := a.Has(q); !in {
				t.Errorf("%v is not in %+v", q, a)
			}
			in := false
			for _, r := range a.Scores() {
				in = in || r.Low <= p.Score() && p.Score() < r.High
			}
			if !in {
				t.Errorf("the score of %v is in no range of %+v", q, a)
			}
		}
	})
}
