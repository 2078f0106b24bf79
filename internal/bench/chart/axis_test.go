package chart

import (
	"math"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		v    float64
		want string
	}{
		{Count, 0, "0"}, {Count, 10, "10"}, {Count, 999, "999"}, {Count, 999.4, "999"}, {Count, 999.9, "1 k"},
		{Count, 1000, "1 k"}, {Count, 1536, "1.54 k"}, {Count, 1e6, "1 M"}, {Count, 2.5e9, "2.5 G"}, {Count, -1500, "-1.5 k"},
		{Count, 0.05, "0.05"}, {Count, 1e300, "1e+291 G"}, {Count, math.MaxFloat64, "1.8e+299 G"}, {Ratio, math.MaxFloat64, "–"}, {Count, 5e-324, "5e-324"},
		{Count, math.Copysign(0, -1), "0"},
		{Nanoseconds, 0.5, "0.5 ns"}, {Nanoseconds, 100, "100 ns"}, {Nanoseconds, 1230, "1.23 µs"}, {Nanoseconds, 999_999, "1 ms"},
		{Nanoseconds, 1e7, "10 ms"}, {Nanoseconds, 7.2e12, "7200 s"},
		{Bytes, 1, "1 B"}, {Bytes, 4096, "4.1 kB"}, {Bytes, 3e12, "3 TB"},
		{Ratio, 0.5, "0.5×"}, {Ratio, 1.004, "1×"}, {Ratio, 12345, "12300×"},
		{Count, math.NaN(), "–"}, {Count, math.Inf(1), "–"}, {Ratio, math.Inf(-1), "–"}, {Bytes, math.NaN(), "–"},
	} {
		if got := c.unit.Format(c.v); got != c.want {
			t.Errorf("%v in unit %d is %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		name   string
		axis   Axis
		values []float64
		want   string // a dot for a minor tick
	}{
		{"sizes", Axis{Log: true}, []float64{10, 1e6}, "10 . . 100 . . 1 k . . 10 k . . 100 k . . 1 M"},
		{"times", Axis{Log: true, Unit: Nanoseconds}, []float64{80, 2e7}, ". 100 ns . . 1 µs . . 10 µs . . 100 µs . . 1 ms . . 10 ms ."},
		{"two decades", Axis{Log: true, Unit: Bytes}, []float64{40, 3000}, "50 B 100 B 200 B 500 B 1 kB 2 kB"},
		{"within one", Axis{Log: true}, []float64{300, 400}, "200 500"},
		{"one value", Axis{Log: true, Unit: Ratio}, []float64{1}, "0.5× 1× 2×"},
		{"no value", Axis{Log: true}, nil, "0.5 1 2"},
		{"none that fits", Axis{Log: true}, []float64{0, -3, math.NaN(), math.Inf(1)}, "0.5 1 2"},
		{"very many decades", Axis{Log: true}, []float64{1e-10, 1e10}, "1e-09 1e-06 0.001 1 1 k 1 M 1 G"},
		{"all there is", Axis{Log: true}, []float64{5e-324, 1e-300, 1e300}, "1e-260 1e-195 1e-130 1e-65 1 1e+56 G 1e+121 G 1e+186 G 1e+251 G"},
		{"linear", Axis{}, []float64{3, 7}, "0 2 4 6"},
		{"linear times", Axis{Unit: Nanoseconds}, []float64{1900}, "0 ns 500 ns 1 µs 1.5 µs"},
		{"linear, negative", Axis{}, []float64{-30, 60}, "-20 0 20 40 60"},
		{"linear, all zero", Axis{}, []float64{0, 0}, "0 0.2 0.4 0.6 0.8 1"},
		{"linear, no value", Axis{}, []float64{math.Inf(-1), math.NaN()}, "0 0.2 0.4 0.6 0.8 1"},
		{"linear, tiny", Axis{}, []float64{5e-324}, "0 0.2 0.4 0.6 0.8 1"},
		{"linear, huge", Axis{}, []float64{-1e300, 1e300}, "-1e+291 G -5e+290 G 0 5e+290 G 1e+291 G"},
	} {
		s := newScale(c.axis, c.values, 0, 100)
		var got []string
		last := math.Inf(-1)
		for _, tick := range s.ticks() {
			at := s.placeMeasure(tick.at)
			if !(at >= 0 && at <= 100) || at <= last {
				t.Errorf("%s: a tick at %v behind one at %v", c.name, at, last)
			}
			last = at
			if tick.label == "" {
				tick.label = "."
			}
			got = append(got, tick.label)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.name, got, c.want)
		}
		for _, v := range c.values {
			if at := s.place(v); !(at >= 0 && at <= 100) {
				t.Errorf("%s: %v is at %v of 100", c.name, v, at)
			}
		}
	}
}
