package chart

import (
	"math"
	"slices"
	"strconv"
)

// Unit is the unit of numbers, and so their spelling.
type Unit int

// The units.
const (
	Count       Unit = iota // 10, 1 k, 1 M
	Nanoseconds             // 100 ns, 1 µs, 10 ms
	Bytes                   // 100 B, 1 kB, 1 MB, in steps of 1000
	Ratio                   // 0.5×, 2×
)

// steps are the suffixes of numbers of each unit, each for a thousand times the previous one.
var steps = [...][]string{
	Count:       {"", " k", " M", " G"},
	Nanoseconds: {" ns", " µs", " ms", " s"},
	Bytes:       {" B", " kB", " MB", " GB", " TB"},
	Ratio:       {"×"},
}

// none is written for a missing number.
const none = "–"

// Format writes a number with three digits and its unit, and a dash for a value that is not finite.
func (u Unit) Format(v float64) string {
	if math.IsNaN(v) {
		return none
	}
	for i, step := range steps[u] {
		// The digits are cut before the step is chosen: 999.9 is 1 k.
		r, _ := strconv.ParseFloat(strconv.FormatFloat(v/math.Pow10(3*i), 'e', 2, 64), 64)
		if math.Abs(r) < 1000 || i == len(steps[u])-1 && !math.IsInf(r, 0) {
			return strconv.FormatFloat(r+0, 'g', -1, 64) + step // -0 + 0 is 0
		}
	}
	return none
}

// Axis is one of the two directions of a chart. A linear axis begins at zero.
type Axis struct {
	Label string // of the axis, such as "time per record"
	Unit  Unit
	Log   bool // logarithmic; zero and less have no place on it
}

// measure returns the value, or its decimal logarithm: lengths along the axis are proportional to
// it. It reports whether the value has a place on the axis.
func (a Axis) measure(v float64) (float64, bool) {
	const most = 1e300 // sums of values must not overflow, and ticks below the least not be zero
	if !(math.Abs(v) <= most) || a.Log && v < 1/most {
		return 0, false
	}
	if a.Log {
		v = math.Log10(v)
	}
	return v, true
}

// scale is an axis with its ends, in measures and in the coordinates of the drawing.
type scale struct {
	Axis
	lo, hi   float64
	from, to float64
}

// tick is a place on an axis with a line, and with a label unless it is a minor one.
type tick struct {
	at    float64 // as a measure
	label string
}

// leastDecades is how much a logarithmic axis shows at least: enough for two labels of 1, 2, 5, 10.
const leastDecades = 0.8

// newScale makes a scale that shows all of the values that have a place on the axis.
func newScale(a Axis, values []float64, from, to float64) scale {
	s := scale{Axis: a, from: from, to: to}
	var measures []float64
	for _, v := range values {
		if m, ok := a.measure(v); ok {
			measures = append(measures, m)
		}
	}
	if len(measures) > 0 {
		s.lo, s.hi = slices.Min(measures), slices.Max(measures)
	}
	if a.Log {
		if short := leastDecades - (s.hi - s.lo); short > 0 {
			s.lo, s.hi = s.lo-short/2, s.hi+short/2
		}
		pad := 0.04 * (s.hi - s.lo)
		s.lo, s.hi = s.lo-pad, s.hi+pad
		return s
	}
	s.lo, s.hi = min(s.lo, 0), max(s.hi, 0)
	if s.hi-s.lo < 1e-300 {
		s.hi = 1
	}
	s.lo, s.hi = s.lo*1.05, s.hi*1.05
	return s
}

// place returns the coordinate of a value. A value that has none is at the start of the axis.
func (s scale) place(v float64) float64 {
	m, ok := s.measure(v)
	if !ok {
		return s.from
	}
	return s.placeMeasure(m)
}

// placeMeasure rounds the product by itself, so that no processor fuses it with the sum and draws
// other bytes.
func (s scale) placeMeasure(m float64) float64 {
	return s.from + float64((s.to-s.from)*((m-s.lo)/(s.hi-s.lo)))
}

// ticks returns the lines of the axis, in ascending order.
func (s scale) ticks() []tick {
	if s.Log {
		return s.logTicks()
	}
	const most = 6
	raw := (s.hi - s.lo) / most
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{2, 2.5, 2} { // 2, 5 and 10 times
		if step < raw {
			step *= m
		}
	}
	var ticks []tick
	for i := math.Ceil(s.lo / step); i*step <= s.hi; i++ {
		ticks = append(ticks, tick{i * step, s.Unit.Format(i * step)})
	}
	return ticks
}

// logTicks labels 1, 2, 5, 10 on an axis of few decades, each decade on one of more, and every so
// many on one of very many.
func (s scale) logTicks() []tick {
	const (
		few  = 2.2
		many = 10
	)
	decades := s.hi - s.lo
	stride := int(math.Ceil(decades / many))
	var ticks []tick
	for e := int(math.Floor(s.lo)); e <= int(math.Floor(s.hi)); e++ {
		for _, m := range []float64{1, 2, 5} {
			at := float64(e) + math.Log10(m)
			if at < s.lo || at > s.hi || stride > 1 && (m > 1 || e%stride != 0) {
				continue
			}
			t := tick{at: at}
			if m == 1 || decades < few {
				t.label = s.Unit.Format(m * math.Pow10(e))
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}
